//! Which server a command talks to, and in which namespace.

use std::path::PathBuf;

use clap::Args;
use skopos_client::{Catalog, Client, Sources, connect, discover};

use crate::failure::Failure;
use crate::terminal;

/// Where a running `skopos up` leaves its kubeconfig.
pub(crate) const RUNNING_KUBECONFIG: &str = ".skopos/kubeconfig";

/// Options of every command that talks to a server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Kubeconfig of the server; otherwise KUBECONFIG, the pod's service account, the running `skopos up` in
    /// this directory, and ~/.kube/config are looked for in this order
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use instead of the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which namespaces a command looks at.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Scope {
    /// Namespace; otherwise the one that the context names
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// Which objects a command looks at.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Select {
    /// Only objects with these labels, such as `tier=web,env in (a,b)`
    #[arg(
        short = 'l',
        long = "selector",
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) labels: String,
    /// Only objects with these fields, such as `metadata.name=web`
    #[arg(
        long = "field-selector",
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) fields: String,
}

impl Connection {
    /// Uses this kubeconfig and nothing else.
    pub(crate) fn with_kubeconfig(path: PathBuf) -> Self {
        Self {
            kubeconfig: Some(path),
            context: None,
        }
    }

    /// Connects. Nothing is sent yet, so a server that is down is not noticed here.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(connect(&self.sources()).await?)
    }

    /// Connects and asks what the server serves.
    pub(crate) async fn discover(&self) -> Result<(Client, Catalog), Failure> {
        let client = self.client().await?;
        let catalog = discover(&client).await?;
        for failure in &catalog.failures {
            terminal::warn(&format!("discovery: {failure}"));
        }
        Ok((client, catalog))
    }

    fn sources(&self) -> Sources {
        Sources {
            explicit: self.kubeconfig.clone(),
            running: Some(RUNNING_KUBECONFIG.into()),
            context: self.context.clone(),
            ..Sources::of_variables(|name| std::env::var_os(name))
        }
    }
}

impl Scope {
    /// The namespace to use, or `None` for all of them.
    pub(crate) fn namespace(&self, client: &Client) -> Option<String> {
        if self.all_namespaces {
            return None;
        }
        Some(
            self.namespace
                .clone()
                .unwrap_or_else(|| client.default_namespace().to_owned()),
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::cli::Cli;

    #[test]
    fn nothing_else_stands_under_the_heading_of_the_connection() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands() {
            let args = command.get_arguments();
            for arg in args.filter(|arg| arg.get_help_heading() == Some("Connection")) {
                let (name, id) = (command.get_name(), arg.get_id().as_str());
                assert!(["kubeconfig", "context"].contains(&id), "{name} --{id}");
            }
        }
    }
}
