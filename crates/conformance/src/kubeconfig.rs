//! Reads of a kubeconfig what these tests need: the server, whom to trust, and who we are.

use std::path::Path;

use anyhow::Context;
use base64::Engine as _;
use serde_json::Value;

/// The current context of a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    /// `https://host:port`.
    pub server: String,
    /// PEM of the authority that signed the server's certificate.
    pub authority: Vec<u8>,
    /// A bearer token.
    pub token: Option<String>,
    /// PEM of a client certificate and of its key.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl Kubeconfig {
    /// Reads a file in YAML or JSON.
    pub fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let config: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
        let context = named(&config["contexts"], config["current-context"].as_str())?;
        let cluster = named(&config["clusters"], context["context"]["cluster"].as_str())?;
        let user = named(&config["users"], context["context"]["user"].as_str())?;
        let (cluster, user) = (&cluster["cluster"], &user["user"]);
        let certificate = part(user, "client-certificate")?.zip(part(user, "client-key")?);
        Ok(Kubeconfig {
            server: cluster["server"].as_str().context("no server")?.to_owned(),
            authority: part(cluster, "certificate-authority")?.context("no certificate-authority")?,
            token: user["token"].as_str().map(str::to_owned),
            certificate,
        })
    }
}

fn named<'a>(list: &'a Value, name: Option<&str>) -> anyhow::Result<&'a Value> {
    let entries = list.as_array().context("not a kubeconfig")?;
    let found = entries.iter().find(|entry| entry["name"].as_str() == name);
    found.with_context(|| format!("the kubeconfig has no entry named {name:?}"))
}

/// A part given in place (`<key>-data`, base64) or by a path (`<key>`).
fn part(value: &Value, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(data) = value[format!("{key}-data")].as_str() {
        return Ok(Some(base64::engine::general_purpose::STANDARD.decode(data)?));
    }
    let Some(path) = value[key].as_str() else {
        return Ok(None);
    };
    std::fs::read(path)
        .with_context(|| format!("read {path}"))
        .map(Some)
}
