//! `cargo xtask tidy`: the rules of the tree that a compiler does not know.

mod files;
mod layers;
mod table;

/// Applies every rule, prints each breach, and fails if there was one.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut breaches = files::check()?;
    breaches.extend(layers::check()?);
    breaches.extend(table::check()?);
    for breach in &breaches {
        println!("{breach}");
    }
    anyhow::ensure!(
        breaches.is_empty(),
        "{} breaches of the tree's rules",
        breaches.len()
    );
    Ok(())
}
