//! One running real control plane: its directory, ports, keys and processes.

use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::process::Process;
use super::{bin, build, user_dir};
use crate::interrupt;
use crate::run::{own_program, seconds, wait_until};

/// In the order in which they start; they stop the other way round.
const PROCESSES: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// Which controllers run beside the server.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Controllers {
    /// All that work without nodes.
    All,
    /// Those that the embedded control plane has too: others would write to the objects of a test.
    Embedded,
}

impl Controllers {
    fn list(self) -> &'static str {
        match self {
            // Nodes are made by hand here: nothing renews their leases.
            Controllers::All => "*,-node-lifecycle-controller,-node-ipam-controller",
            Controllers::Embedded => {
                "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
                 root-ca-certificate-publisher-controller"
            }
        }
    }
}

/// A real control plane under a name.
pub(crate) struct Instance {
    dir: PathBuf,
    ready_after: Option<Duration>,
}

impl Instance {
    /// The instance of that name, whether it runs or not.
    pub(crate) fn named(name: &str) -> anyhow::Result<Instance> {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        anyhow::ensure!(plain, "an instance is named by letters, digits and dashes");
        Ok(Instance {
            dir: home()?.join(name),
            ready_after: None,
        })
    }

    /// Starts an instance on free ports and waits until it is ready. One that runs already is left as it is.
    pub(crate) fn start(name: &str, controllers: Controllers) -> anyhow::Result<Instance> {
        build::all()?;
        interrupt::check()?;
        let mut instance = Instance::named(name)?;
        if PROCESSES.iter().all(|name| instance.runs(name)) {
            return Ok(instance);
        }
        instance.stop()?;
        std::fs::create_dir_all(&instance.dir)?;
        if let Err(error) = instance.launch(controllers) {
            instance.stop_processes()?;
            if interrupt::is_told() {
                instance.stop()?;
                return Err(error);
            }
            return Err(error.context(format!("logs are in {}", instance.dir.display())));
        }
        let ready_after = seconds(instance.ready_after.unwrap_or_default());
        eprintln!("kube-apiserver {} ready after {ready_after}", build::VERSION);
        Ok(instance)
    }

    /// Starts one for this process alone, which is to stop it: another process may do the same at the same time.
    ///
    /// Stops what processes left behind that were killed.
    pub(crate) fn start_own(purpose: &str, controllers: Controllers) -> anyhow::Result<Instance> {
        for name in all()? {
            let owner = name.strip_prefix(purpose).and_then(|rest| rest.strip_prefix('-'));
            if owner.and_then(|id| id.parse().ok()).is_some_and(is_over) {
                Instance::named(&name)?.stop()?;
            }
        }
        Instance::start(&format!("{purpose}-{}", std::process::id()), controllers)
    }

    /// The kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// From the start of etcd until the server was ready, if it was started just now.
    pub(crate) fn ready_after(&self) -> Option<Duration> {
        self.ready_after
    }

    /// The ids of its processes, in the order of their start, for those who measure them.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        PROCESSES
            .iter()
            .filter_map(|name| Process::read(&self.dir, name))
            .map(Process::id)
            .collect()
    }

    /// What tells tests how they can kill its API server: with this program, by its name.
    pub(crate) fn how_to_crash(&self) -> anyhow::Result<[(String, String); 2]> {
        let chores = own_program()?.display().to_string();
        Ok([
            ("SKOPOS_XTASK".into(), chores),
            ("SKOPOS_TARGET_NAME".into(), name_of(&self.dir)),
        ])
    }

    /// Whether it was started just now, and not by somebody before.
    pub(super) fn is_new(&self) -> bool {
        self.ready_after.is_some()
    }

    /// Kills the API server and starts it again as it was.
    pub(crate) fn crash(&self) -> anyhow::Result<()> {
        let name = PROCESSES[1];
        let process = Process::read(&self.dir, name).filter(|process| process.runs());
        let process = process.with_context(|| format!("{name} does not run"))?;
        let mut command = process.command()?;
        process.kill()?;
        start_again(
            || Process::start(&self.dir, name, &mut command),
            || self.wait_until_ready(),
        )
    }

    /// Stops exactly the processes that were started here and deletes their data.
    pub(crate) fn stop(&self) -> anyhow::Result<()> {
        self.stop_processes()?;
        match std::fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("delete {}", self.dir.display()))
            }
            _ => Ok(()),
        }
    }

    fn stop_processes(&self) -> anyhow::Result<()> {
        for name in PROCESSES.iter().rev() {
            if let Some(process) = Process::read(&self.dir, name) {
                process.stop().with_context(|| format!("stop {name}"))?;
            }
        }
        Ok(())
    }

    fn runs(&self, name: &str) -> bool {
        Process::read(&self.dir, name).is_some_and(Process::runs)
    }

    fn launch(&mut self, controllers: Controllers) -> anyhow::Result<()> {
        let [etcd_port, peer_port, port, manager_port] = free_ports()?;
        let token = self.write_credentials()?;
        let start = Instant::now();
        self.start_etcd(etcd_port, peer_port)?;
        self.start_apiserver(etcd_port, port)?;
        self.wait_for("the server's certificate", |instance| {
            instance.certificate().is_file()
        })?;
        self.write_kubeconfig(port, &token)?;
        self.wait_until_ready()?;
        self.ready_after = Some(start.elapsed());
        self.start_controller_manager(manager_port, controllers)?;
        self.wait_for("the default service account", |instance| {
            instance.answers(&["get", "serviceaccount", "default", "--namespace=default"])
        })
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.wait_for("/readyz", |instance| {
            instance.answers(&["get", "--raw", "/readyz"])
        })
    }

    fn wait_for(&self, what: &str, ready: impl Fn(&Instance) -> bool) -> anyhow::Result<()> {
        let limit = Duration::from_secs(90);
        let dead = || {
            PROCESSES
                .iter()
                .find(|name| Process::read(&self.dir, name).is_some() && !self.runs(name))
        };
        let waited = wait_until(limit, || ready(self) || dead().is_some() || interrupt::is_told());
        interrupt::check()?;
        if let Some(name) = dead() {
            anyhow::bail!("{name} ended while waiting for {what}");
        }
        anyhow::ensure!(waited, "{what} is not there after {}", seconds(limit));
        Ok(())
    }

    fn answers(&self, args: &[&str]) -> bool {
        let Ok(kubectl) = bin("kubectl") else { return false };
        let output = Command::new(kubectl)
            .args(args)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .output();
        output.is_ok_and(|output| output.status.success())
    }

    fn certificate(&self) -> PathBuf {
        self.dir.join("certificates/apiserver.crt")
    }

    fn write_credentials(&self) -> anyhow::Result<String> {
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(self.dir.join("service-account.key"), key.serialize_pem())?;
        std::fs::write(self.dir.join("service-account.pub"), key.public_key_pem())?;
        let token = random_token()?;
        std::fs::write(
            self.dir.join("tokens.csv"),
            format!("{token},admin,admin,system:masters\n"),
        )?;
        Ok(token)
    }

    fn write_kubeconfig(&self, port: u16, token: &str) -> anyhow::Result<()> {
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": self.certificate(),
            }}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        });
        Ok(std::fs::write(
            self.kubeconfig(),
            serde_json::to_vec_pretty(&config)?,
        )?)
    }

    fn start_etcd(&self, client: u16, peer: u16) -> anyhow::Result<()> {
        let client = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        let mut etcd = Command::new(bin("etcd")?);
        etcd.arg("--data-dir").arg(self.dir.join("etcd"));
        etcd.args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ]);
        etcd.args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ]);
        etcd.arg(format!("--initial-cluster=default={peer}"));
        Process::start(&self.dir, PROCESSES[0], &mut etcd).map(drop)
    }

    fn start_apiserver(&self, etcd: u16, port: u16) -> anyhow::Result<()> {
        let mut server = Command::new(bin("kube-apiserver")?);
        server.arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"));
        server.args(["--bind-address=127.0.0.1", "--authorization-mode=RBAC"]);
        server.args([
            "--service-cluster-ip-range=10.96.0.0/16",
            &format!("--secure-port={port}"),
        ]);
        server.arg("--service-account-issuer=https://kubernetes.default.svc");
        server
            .arg("--service-account-key-file")
            .arg(self.dir.join("service-account.pub"));
        server
            .arg("--service-account-signing-key-file")
            .arg(self.dir.join("service-account.key"));
        server.arg("--token-auth-file").arg(self.dir.join("tokens.csv"));
        server.arg("--cert-dir").arg(self.dir.join("certificates"));
        Process::start(&self.dir, PROCESSES[1], &mut server).map(drop)
    }

    fn start_controller_manager(&self, port: u16, controllers: Controllers) -> anyhow::Result<()> {
        let mut manager = Command::new(bin("kube-controller-manager")?);
        manager.arg("--kubeconfig").arg(self.kubeconfig());
        manager
            .arg("--service-account-private-key-file")
            .arg(self.dir.join("service-account.key"));
        manager.arg("--root-ca-file").arg(self.certificate());
        manager
            .arg("--cert-dir")
            .arg(self.dir.join("manager-certificates"));
        manager.args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            &format!("--secure-port={port}"),
        ]);
        manager.arg(format!("--controllers={}", controllers.list()));
        Process::start(&self.dir, PROCESSES[2], &mut manager).map(drop)
    }
}

/// Starts a process and waits until it is ready. The system may close the sockets of one that was killed a moment after it
/// is gone, and who starts meanwhile ends at once: only such a one is followed by another. One that lives is let be,
/// ready or not: nobody would know of it any more.
fn start_again(
    mut start: impl FnMut() -> anyhow::Result<Process>,
    ready: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for _ in 0..2 {
        let Ok(process) = start() else { continue };
        let outcome = ready();
        if outcome.is_ok() || process.runs() {
            return outcome;
        }
    }
    start()?;
    ready()
}

/// Prints each instance with its kubeconfig and processes.
pub(super) fn print_status() -> anyhow::Result<()> {
    let names = all()?;
    if names.is_empty() {
        println!("no instance");
    }
    for name in names {
        let Instance { dir, .. } = Instance::named(&name)?;
        println!("{name}  {}", dir.join("kubeconfig").display());
        for name in PROCESSES {
            match Process::read(&dir, name) {
                Some(process) if process.runs() => println!("  {name}: runs, process {}", process.id()),
                _ => println!("  {name}: stopped"),
            }
        }
    }
    Ok(())
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The names of all instances.
fn all() -> anyhow::Result<Vec<String>> {
    let Ok(entries) = std::fs::read_dir(home()?) else {
        return Ok(Vec::new());
    };
    let names = entries.map(|entry| Ok(name_of(&entry?.path())));
    names.collect()
}

/// Whether a process has ended, as far as this system tells.
fn is_over(id: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new("/proc").join(id.to_string()).exists()
}

fn home() -> anyhow::Result<PathBuf> {
    Ok(user_dir("XDG_STATE_HOME", ".local/state")?.join("skopos/kube"))
}

/// Free ports, all held until the last is found so that they differ. The system gives none of these to connections:
/// whoever knocks while a server is being started again could get its port.
fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    let mut candidates = std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).take(1_000);
    for port in &mut ports {
        let listener = candidates.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        let listener = listener.context("no free port between 20000 and 32000")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn random_token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Starts again where so many end at once and the next one stays; returns how many were started.
    fn n_started(n_ending: u32, is_ready: bool) -> (u32, bool) {
        let (me, gone) = (Process::own(), Process::gone());
        let n_started = Cell::new(0);
        let lives = || n_started.get() > n_ending;
        let start = || {
            n_started.set(n_started.get() + 1);
            Ok(if lives() { me } else { gone })
        };
        let ready = || {
            anyhow::ensure!(lives() && is_ready, "not ready");
            Ok(())
        };
        let outcome = start_again(start, ready);
        (n_started.get(), outcome.is_ok())
    }

    #[test]
    fn only_one_that_ended_is_followed_by_another() {
        assert_eq!(n_started(0, true), (1, true));
        assert_eq!(n_started(2, true), (3, true));
        assert_eq!(n_started(9, true), (3, false));
        // It lives and is not ready: a second one would leave it without anybody who knows of it.
        assert_eq!(n_started(0, false), (1, false));
        assert_eq!(n_started(1, false), (2, false));
    }
}
