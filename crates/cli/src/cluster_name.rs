//! What the cluster is called in events, as commands are told of it.

use std::str::FromStr;

use clap::Args;
use skopos_object::validation::dns1123_label;

/// The flag, which several commands have.
#[derive(Debug, Args)]
pub(crate) struct ClusterFlag {
    /// What the cluster is called in events and in history; written down with what is kept, which cannot change its name
    #[arg(
        long = "cluster-name",
        value_name = "NAME",
        env = "SKOPOS_CLUSTER_NAME",
        default_value = "kubernetes"
    )]
    pub(crate) name: ClusterName,
}

/// The name of a cluster: a DNS label, since it is a part of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterName(pub(crate) String);

impl FromStr for ClusterName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match dns1123_label(text).as_slice() {
            [] => Ok(Self(text.to_owned())),
            problems => Err(problems.join("; ")),
        }
    }
}
