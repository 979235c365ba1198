//! `cargo xtask bench`: measures the embedded server, and the real one beside it.

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many objects.
    #[arg(short = 'n', long, default_value_t = 50_000)]
    objects: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::bail!("no benchmark yet ({} objects)", args.objects)
}
