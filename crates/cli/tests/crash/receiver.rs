//! Receives events over HTTP in a process of its own, which is killed, and is not to be relied on while it lives.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::endpoint::free_port;

const PORT: &str = "CRASH_RECEIVER_PORT";
const FILE: &str = "CRASH_RECEIVER_FILE";
const SEED: &str = "CRASH_RECEIVER_SEED";

/// An endpoint that fails, forgets to answer, and is killed. What it took is in a file, one event a line.
pub(crate) struct Receiver {
    port: u16,
    file: PathBuf,
    seed: u64,
    /// While it is up.
    process: Option<Child>,
}

impl Receiver {
    pub(crate) fn start(dir: &Path, seed: u64) -> Self {
        let mut receiver = Self {
            port: free_port(),
            file: dir.join("received"),
            seed,
            process: None,
        };
        receiver.up();
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Kills it, or starts it again. Returns whether it was killed.
    pub(crate) fn toggle(&mut self) -> bool {
        let was_up = self.process.is_some();
        if was_up {
            self.kill();
        } else {
            self.up();
        }
        was_up
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn up(&mut self) {
        if self.process.is_some() {
            return;
        }
        self.drop_torn_line();
        self.seed += 1;
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["receiver::as_told", "--exact", "--nocapture"])
            .env(PORT, self.port.to_string())
            .env(FILE, &self.file)
            .env(SEED, self.seed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    /// Everything that was received until now.
    pub(crate) fn received(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Killed while it wrote: nobody was told that this was received.
    fn drop_torn_line(&self) {
        let bytes = std::fs::read(&self.file).unwrap_or_default();
        let end = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        if end < bytes.len() {
            let file = OpenOptions::new().write(true).open(&self.file).unwrap();
            file.set_len(end as u64).unwrap();
        }
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the process shares between its connections.
struct Shared {
    file: File,
    rng: fastrand::Rng,
}

/// The process itself, when it is started as one.
#[test]
fn as_told() {
    let Ok(port) = std::env::var(PORT) else { return };
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(std::env::var_os(FILE).unwrap())
        .unwrap();
    let rng = fastrand::Rng::with_seed(std::env::var(SEED).unwrap().parse().unwrap());
    let shared = Arc::new(Mutex::new(Shared { file, rng }));
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    for stream in listener.incoming().map_while(Result::ok) {
        let shared = shared.clone();
        std::thread::spawn(move || serve(stream, &shared));
    }
}

/// Takes requests of one connection until it breaks.
fn serve(stream: TcpStream, shared: &Mutex<Shared>) {
    let mut stream = BufReader::new(stream);
    while let Some(event) = read(&mut stream) {
        let mut shared = shared.lock().unwrap();
        let fate = shared.rng.u32(..20);
        // An event that is refused was not received; one whose answer is lost was.
        if fate != 0 {
            shared.file.write_all(format!("{event}\n").as_bytes()).unwrap();
        }
        drop(shared);
        let answer: &[u8] = match fate {
            0 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            1 => return,
            _ => b"HTTP/1.1 204 No Content\r\n\r\n",
        };
        if stream.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}

/// One CloudEvent in binary mode: its attributes are headers.
fn read(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut event = json!({});
    let mut n_body = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let name = name.to_ascii_lowercase();
        if name == "content-length" {
            n_body = value.parse().ok()?;
        }
        if let Some(attribute) = name.strip_prefix("ce-") {
            event[attribute] = value.into();
        }
    }
    let mut body = vec![0; n_body];
    stream.read_exact(&mut body).ok()?;
    event["data"] = serde_json::from_slice(&body).ok()?;
    Some(event)
}
