//! Runs the fuzz targets of this crate's subjects briefly; see `fuzz/README.md`.

#[path = "../../../fuzz/brief.rs"]
mod brief;
#[path = "../../../fuzz/bodies/json_body.rs"]
mod json_body;
#[path = "../../../fuzz/bodies/patches.rs"]
mod patches;
#[path = "../../../fuzz/bodies/selectors.rs"]
mod selectors;

#[test]
fn json_bodies_do_no_harm() {
    brief::run("json_body", json_body::run);
}

#[test]
fn patches_do_no_harm() {
    brief::run("patches", patches::run);
}

#[test]
fn selectors_do_no_harm() {
    brief::run("selectors", selectors::run);
}
