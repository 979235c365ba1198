//! `skopos version`: of this program and of the server it talks to.

use clap::Args;
use serde_json::{Value, json};
use skopos_client::Call;

use crate::connection::Connection;
use crate::failure::{Code, Failure};
use crate::output::Format;
use crate::terminal;

/// Show the version of this program and of the server
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Do not ask a server
    #[arg(long)]
    client: bool,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Version {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let ours = env!("CARGO_PKG_VERSION");
        let server = if self.client {
            Ok(None)
        } else {
            self.server().await.map(Some)
        };
        // Without any server there is nothing wrong; one that was named and does not answer is an error.
        let server = match server {
            Err(failure) if failure.code == Code::NoConnection && self.connection.kubeconfig.is_none() => {
                None
            }
            other => other?,
        };
        let line = match self.output {
            Format::Json => json!({"client": {"version": ours}, "server": server}).to_string(),
            Format::Text => {
                let theirs = server
                    .as_ref()
                    .and_then(|v| v["gitVersion"].as_str())
                    .unwrap_or("none found");
                if self.client {
                    format!("skopos {ours}")
                } else {
                    format!("skopos {ours}\nserver {theirs}")
                }
            }
        };
        Ok(terminal::say(&line)?)
    }

    async fn server(&self) -> Result<Value, Failure> {
        let client = self.connection.client().await?;
        Ok(client.call(&Call::get("/version")).await?.value)
    }
}
