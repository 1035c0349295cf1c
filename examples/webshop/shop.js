// A web shop that knows nothing of cepbridge: it writes orders and payments, and shows the orders that nobody pays.
//
//   node examples/webshop/shop.js shop.db 8080          and, beside it,
//   cepbridge watch sqlite:///shop.db examples/webshop/queries.sql
//
// Then http://127.0.0.1:8080/ shows the shop. With a third argument, "customers", there are some who order and mostly pay.
// It needs Node alone from version 22.5 on, and the program sqlite3 before.
"use strict";

const http = require("node:http");
const { open } = require("./database.js");

const [file = "shop.db", port = "8080", customers] = process.argv.slice(2);
const NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')";
const database = open(file);

database.run(`
  CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, amount REAL NOT NULL, created_at TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY AUTOINCREMENT, order_id INTEGER NOT NULL, created_at TEXT NOT NULL);`);

function order(amount) {
  return database.rows(`INSERT INTO orders (amount, created_at) VALUES (${Number(amount)}, ${NOW}) RETURNING id`)[0].id;
}

function pay(id) {
  database.run(`INSERT INTO payments (order_id, created_at) VALUES (${Number(id)}, ${NOW})`);
}

function unpaid() {
  const watched = database.rows("SELECT 1 FROM sqlite_master WHERE name = 'unpaid_orders'").length > 0;
  return watched ? database.rows("SELECT order_id, amount, ts FROM unpaid_orders ORDER BY ts, order_id") : [];
}

function page() {
  const rows = unpaid().map((row) => `<tr><td>${row.order_id}<td>${row.amount}<td>${new Date(row.ts).toISOString()}`);
  return `<!doctype html><meta http-equiv="refresh" content="1"><title>Shop</title><h1>Orders that nobody pays</h1>
    <table><tr><th>order<th>amount<th>noticed at${rows.join("")}</table>`;
}

const ROUTES = {
  "GET /": () => ["text/html", page()],
  "GET /unpaid": () => ["application/json", JSON.stringify(unpaid())],
  "POST /orders": (query) => ["application/json", JSON.stringify({ id: order(query.get("amount")) })],
  "POST /payments": (query) => ["application/json", JSON.stringify(pay(query.get("order_id")) ?? {})],
};

const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  const route = ROUTES[`${request.method} ${url.pathname}`];
  try {
    const [kind, body] = route ? route(url.searchParams) : ["text/plain", "not found"];
    response.writeHead(route ? 200 : 404, { "Content-Type": kind }).end(body);
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});

server.listen(Number(port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));

if (customers === "customers") {
  setInterval(() => {
    const id = order((5 + 95 * Math.random()).toFixed(2));
    if (Math.random() < 0.8) setTimeout(() => pay(id), 20_000 * Math.random());
  }, 500);
}
