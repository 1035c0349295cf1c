-- What is watched, and what is looked for: cepbridge watch sqlite:///shop.db examples/webshop/queries.sql

CREATE STREAM orders FROM TABLE orders (POSITION id, TIMESTAMP created_at, SINCE BEGINNING);
CREATE STREAM payments FROM TABLE payments (POSITION id, TIMESTAMP created_at, SINCE BEGINNING);

CREATE QUERY steps AS
  SELECT id AS order_id, amount, 'ordered' AS step FROM orders
  UNION ALL
  SELECT order_id, 0.0 AS amount, 'paid' AS step FROM payments;

CREATE QUERY unpaid INTO TABLE unpaid_orders AS
  SELECT * FROM steps MATCH_RECOGNIZE (
    PARTITION BY order_id
    MEASURES A.amount AS amount
    PATTERN (A NOT B) WITHIN 30 S
    DEFINE A AS step = 'ordered', B AS step = 'paid');
