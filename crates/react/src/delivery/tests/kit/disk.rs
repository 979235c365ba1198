//! A disk that keeps what was synced, and of the rest what chance will have.

use std::{
    io,
    sync::{Arc, Mutex},
};

use redb::StorageBackend;

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    live: Vec<u8>,
    synced: Vec<u8>,
    /// Since the last sync, in order.
    unsynced: Vec<Op>,
    /// So many more bytes can be written; without it, any number.
    room: Option<usize>,
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl Disk {
    /// What a reader would find now.
    pub(crate) fn image(&self) -> Self {
        let live = self.state.lock().unwrap().live.clone();
        Self::of(live)
    }

    /// From now on there is room for so many bytes, and for no more.
    pub(crate) fn fill(&self, room: usize) {
        self.state.lock().unwrap().room = Some(room);
    }

    /// There is room again.
    pub(crate) fn free(&self) {
        self.state.lock().unwrap().room = None;
    }

    /// What is left after a crash: everything that was synced, and any part of what was not.
    pub(crate) fn crash(&self, rng: &mut fastrand::Rng) -> Self {
        let state = self.state.lock().unwrap();
        let mut left = state.synced.clone();
        let chance = [0.0, 0.5, 1.0][rng.usize(..3)];
        for op in &state.unsynced {
            // A file that has grown stays so, or later writes would have no place.
            if matches!(op, Op::Resize(_)) || rng.f64() < chance {
                apply(&mut left, op);
            }
        }
        Self::of(left)
    }

    fn of(bytes: Vec<u8>) -> Self {
        let state = State {
            live: bytes.clone(),
            synced: bytes,
            unsynced: Vec::new(),
            room: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Resize(len) => bytes.resize(*len, 0),
        Op::Write(offset, data) => {
            let end = offset + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..end].copy_from_slice(data);
        }
    }
}

impl State {
    fn perform(&mut self, op: Op) -> io::Result<()> {
        if let (Some(room), Op::Write(_, data)) = (&mut self.room, &op) {
            *room = room.checked_sub(data.len()).ok_or(io::ErrorKind::StorageFull)?;
        }
        apply(&mut self.live, &op);
        self.unsynced.push(op);
        Ok(())
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.state.lock().unwrap().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let state = self.state.lock().unwrap();
        out.copy_from_slice(&state.live[at(offset)..at(offset) + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.state.lock().unwrap().perform(Op::Resize(at(len)))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let state = &mut *self.state.lock().unwrap();
        for op in std::mem::take(&mut state.unsynced) {
            apply(&mut state.synced, &op);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.state
            .lock()
            .unwrap()
            .perform(Op::Write(at(offset), data.to_vec()))
    }
}
