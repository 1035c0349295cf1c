-- cepbridge run examples/queries.sql --events examples/trades.csv

CREATE STREAM trades (symbol VARCHAR, price DOUBLE, volume INTEGER);

-- a filter
CREATE QUERY block AS
  SELECT symbol, price, volume FROM trades WHERE volume > 980;

-- the average of the last three seconds, by share
CREATE QUERY mean AS
  SELECT symbol, AVG(price) AS mean, COUNT(*) AS trades
  FROM trades WINDOW(RANGE 3 S) GROUP BY symbol;

-- a V: two steps down, two steps up, five trades of one share in a row
CREATE QUERY dip AS
  SELECT share, top, bottom, back FROM trades MATCHING (
    PARTITION BY symbol
    PATTERN adeuv WITHIN 3 S
    MEASURES share: VARCHAR, top: DOUBLE, low: DOUBLE, bottom: DOUBLE, half: DOUBLE, back: DOUBLE
    DEFINE a AS true DO share = symbol, top = price,
           d AS price < top * 0.98 DO low = price,
           e AS price < low * 0.98 DO bottom = price,
           u AS price > bottom * 1.02 DO half = price,
           v AS price > half * 1.02 DO back = price);
