//! YAML text in and out, by the rules of the Kubernetes API.
//!
//! Those rules are of YAML 1.1: a plain `yes`, `no`, `on`, `off`, `y` or `n` is a boolean, `0777` is
//! octal, `1_000` is a number, and `<<` merges. Keys of any scalar type become strings.

mod decode;
mod encode;
mod error;
mod scalar;

pub use self::{
    decode::{MAX_ALIAS_BYTES, decode, documents},
    encode::encode,
    error::YamlError,
};
