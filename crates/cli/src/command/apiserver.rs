//! `skopos apiserver`: the control plane alone, started as kube-apiserver is.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use skopos_app::Credentials;

use crate::control_plane::{ControlPlane, Settings};
use crate::failure::{EXIT_CODES, Failure};
use crate::{signal, terminal};

/// Start the API server alone, with the flags of kube-apiserver
///
/// Takes the flags that envtest passes. Flags of kube-apiserver that mean nothing here are accepted with a warning.
/// To use it with envtest, link this program as kube-apiserver and etcd and name the links in
/// TEST_ASSET_KUBE_APISERVER and TEST_ASSET_ETCD (or put them in KUBEBUILDER_ASSETS): it answers to both names.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Apiserver {
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind_address: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,
    /// Where to keep data; without it everything is in memory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to write the admin kubeconfig; otherwise into the data or the certificate directory
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Directory with apiserver.crt and apiserver.key
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
    /// Certificate to serve with
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate to serve with
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Client certificates signed by these authorities are accepted
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Tokens that are accepted, one per line: token,user,uid,"group,group"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Events of each kind that are kept: a watch that needs older ones is told to list again [default: 100000]
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..))]
    default_watch_cache_size: Option<u32>,
    #[command(flatten)]
    ignored: Ignored,
}

/// Flags that envtest passes and that change nothing here.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted without effect")]
struct Ignored {
    #[arg(long, value_name = "IP", help = "Address that others are told")]
    advertise_address: Option<String>,
    #[arg(long, value_name = "URLS", help = "The store is built in")]
    etcd_servers: Option<String>,
    #[arg(long, value_name = "PREFIX", help = "The store is built in")]
    etcd_prefix: Option<String>,
    #[arg(long, value_name = "TYPE", help = "Objects are kept as JSON")]
    storage_media_type: Option<String>,
    #[arg(long, value_name = "NAME", help = "The store is built in")]
    storage_backend: Option<String>,
    #[arg(long, value_name = "CIDR", help = "Range of service addresses")]
    service_cluster_ip_range: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, help = "There are no kubelets")]
    allow_privileged: Option<Option<String>>,
    #[arg(long, value_name = "NAMES", help = "Admission plugins to switch off")]
    disable_admission_plugins: Option<String>,
    #[arg(long, value_name = "NAMES", help = "Admission plugins to switch on")]
    enable_admission_plugins: Option<String>,
    #[arg(long, value_name = "MODES", help = "Authenticated users may do everything")]
    authorization_mode: Option<String>,
    #[arg(long, value_name = "URL", help = "Issuer of service account tokens")]
    service_account_issuer: Option<String>,
    #[arg(long, value_name = "FILE", help = "Key that checks service account tokens")]
    service_account_key_file: Option<String>,
    #[arg(long, value_name = "FILE", help = "Key that signs service account tokens")]
    service_account_signing_key_file: Option<String>,
}

impl Apiserver {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let plane = ControlPlane::start(self.settings()).await?;
        let (address, kubeconfig) = (plane.address(), plane.kubeconfig().display());
        // Serving does not depend on anybody reading the line.
        let _ = terminal::say(&format!(
            "skopos apiserver is ready at https://{address} (kubeconfig {kubeconfig})"
        ));
        plane.run(stop).await
    }

    fn settings(&self) -> Settings {
        let dir = self.data_dir.as_ref().or(self.cert_dir.as_ref()).cloned();
        let dir = dir.unwrap_or_else(|| PathBuf::from(".skopos"));
        Settings {
            data_dir: self.data_dir.clone(),
            listen: SocketAddr::new(self.bind_address, self.secure_port),
            kubeconfig: self.kubeconfig.clone().unwrap_or_else(|| dir.join("kubeconfig")),
            reactions: None,
            max_history_events: self.default_watch_cache_size,
            credentials: Credentials {
                serving: self.serving_certificate(),
                client_ca: self.client_ca_file.clone(),
                tokens: self.token_auth_file.clone(),
                // A directory of our own: files in the certificate directory belong to whoever named it.
                dir: self.cert_dir.as_ref().map(|dir| dir.join("skopos")),
            },
        }
    }

    /// The certificate that was named, or the one in the certificate directory if it is there.
    fn serving_certificate(&self) -> Option<(PathBuf, PathBuf)> {
        if let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) {
            return Some((certificate.clone(), key.clone()));
        }
        let dir = self.cert_dir.as_ref()?;
        let pair = (dir.join("apiserver.crt"), dir.join("apiserver.key"));
        (pair.0.exists() && pair.1.exists()).then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::argv::prepare;
    use crate::cli::Cli;

    #[test]
    fn takes_what_envtest_passes() {
        let flags = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/c \
            --client-ca-file=/c/ca.crt --disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1 \
            --secure-port=7001 --service-account-issuer=https://127.0.0.1:7001/ --service-account-key-file=/c/sa.crt \
            --service-account-signing-key-file=/c/sa.key --service-cluster-ip-range=10.0.0.0/24";
        let args = ["kube-apiserver"]
            .into_iter()
            .chain(flags.split_whitespace())
            .map(Into::into)
            .collect();
        let (args, unknown) = prepare(args);
        assert!(unknown.is_empty(), "{unknown:?}");
        Cli::try_parse_from(args).unwrap();
    }

    #[test]
    fn help_has_no_flag_of_old_versions_that_envtest_would_set() {
        let mut command = Cli::command();
        command.build();
        let help = command
            .find_subcommand_mut("apiserver")
            .unwrap()
            .render_long_help()
            .to_string();
        assert!(
            help.lines()
                .any(|line| line.trim_start().starts_with("--secure-port"))
        );
        assert!(
            !help
                .lines()
                .any(|line| line.trim_start().starts_with("--insecure-port"))
        );
    }
}
