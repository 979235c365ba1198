//! The skopos command.

fn main() {}
