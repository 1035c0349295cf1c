// A file of SQLite: by the module of Node, or by the program sqlite3 where this Node does not have it.
"use strict";

const { execFileSync } = require("node:child_process");

function open(file) {
  let sqlite = null;
  try {
    sqlite = require("node:sqlite");
  } catch {
    return byProgram(file);
  }
  const database = new sqlite.DatabaseSync(file);
  database.exec("PRAGMA busy_timeout = 10000");
  return { run: (sql) => database.exec(sql), rows: (sql) => database.prepare(sql).all() };
}

function byProgram(file) {
  const run = (sql) => execFileSync("sqlite3", ["-json", "-cmd", ".timeout 10000", file, sql], { encoding: "utf8" });
  return { run, rows: (sql) => JSON.parse(run(sql).trim() || "[]") };
}

module.exports = { open };
