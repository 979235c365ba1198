//! Facts about the built-in kinds: schemas, defaults, strategic merge, protobuf, printed columns.
