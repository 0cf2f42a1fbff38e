-- The example of the README: a Kafka topic of {"userId": 1, "userName": "a"}.
-- A record belongs to the hour of its Kafka timestamp in Berlin. When summer time ends, two hours share one value.
CREATE TABLE demo.userinfo (
  userid INT,
  username STRING
)
PARTITIONED BY (dt STRING COMMENT 'hour of the Kafka record in Europe/Berlin, yyyy-MM-dd--HH')
STORED AS PARQUET
TBLPROPERTIES (
  'sink.bucket.assigner'='date-time',
  'sink.bucket.time-column'='timestamp',
  'sink.bucket.time-pattern'='yyyy-MM-dd--HH',
  'sink.bucket.time-zone'='Europe/Berlin'
)
