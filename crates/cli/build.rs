//! Has the program linked with packed relocations where the C library can read them.
//!
//! What a program with random addresses has to adjust when it starts is a megabyte in the usual form, all of which is
//! read into memory; packed it is a fiftieth. glibc reads that since 2.36. Whoever builds elsewhere gets the usual form.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if is_built_for_here() && glibc_version().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Only then this machine's C library is the one that the program will meet.
fn is_built_for_here() -> bool {
    let target = env::var("TARGET").unwrap_or_default();
    target == env::var("HOST").unwrap_or_default() && target.ends_with("-linux-gnu")
}

fn glibc_version() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
