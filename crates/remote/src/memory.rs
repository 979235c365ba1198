//! Blocks in memory that fail, lose answers and are taken over on demand.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures_core::future::BoxFuture;

use crate::{Block, Blocks, BlocksError, Extent, FileId};

/// How often what goes wrong, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// Nothing is done, and an error comes back.
    pub refused: f64,
    /// Some of the first blocks are written, and an error comes back.
    pub torn: f64,
    /// It is done, and an error comes back.
    pub unanswered: f64,
}

#[derive(Debug)]
struct State {
    blocks: BTreeMap<(FileId, u32), Bytes>,
    epoch: u64,
    is_down: bool,
    troubles: Troubles,
    rng: fastrand::Rng,
}

/// A server in memory. Clones are the same one.
#[derive(Clone, Debug)]
pub struct MemoryServer {
    state: Arc<Mutex<State>>,
}

impl MemoryServer {
    /// An empty one, whose chances follow from a seed.
    pub fn new(seed: u64) -> Self {
        let state = State {
            blocks: BTreeMap::new(),
            epoch: 0,
            is_down: false,
            troubles: Troubles::default(),
            rng: fastrand::Rng::with_seed(seed),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Takes the blocks over.
    pub fn open(&self) -> MemoryBlocks {
        let mut state = self.lock();
        state.epoch += 1;
        MemoryBlocks {
            server: self.clone(),
            epoch: state.epoch,
        }
    }

    /// Says what goes wrong from now on.
    pub fn set(&self, troubles: Troubles) {
        self.lock().troubles = troubles;
    }

    /// Answers nothing any more, or again.
    pub fn set_down(&self, is_down: bool) {
        self.lock().is_down = is_down;
    }

    /// How many blocks there are that are not empty.
    pub fn n_blocks(&self) -> usize {
        let state = self.lock();
        state.blocks.values().filter(|bytes| !bytes.is_empty()).count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The blocks, as one of those has them who opened them.
#[derive(Debug)]
pub struct MemoryBlocks {
    server: MemoryServer,
    epoch: u64,
}

impl MemoryBlocks {
    /// Does something, with the chance that it fails.
    fn attempt<T>(&self, work: impl FnOnce(&mut State, f64) -> T) -> Result<T, BlocksError> {
        let mut state = self.server.lock();
        let failed = |what: &str| Err(BlocksError::Unavailable(what.into()));
        if state.is_down {
            return failed("the server is down");
        }
        let (chance, part) = (state.rng.f64(), state.rng.f64());
        let Troubles {
            refused,
            torn,
            unanswered,
        } = state.troubles;
        if chance < refused {
            return failed("refused by chance");
        }
        if chance < refused + torn {
            work(&mut state, part);
            return failed("torn by chance");
        }
        let value = work(&mut state, 1.0);
        match chance < refused + torn + unanswered {
            true => failed("the answer was lost by chance"),
            false => Ok(value),
        }
    }

    fn check(&self, state: &State) -> Result<(), BlocksError> {
        match state.epoch == self.epoch {
            true => Ok(()),
            false => Err(BlocksError::TakenOver("memory".into())),
        }
    }
}

impl Blocks for MemoryBlocks {
    fn place(&self) -> &str {
        "memory"
    }

    fn put<'a>(&'a self, blocks: &'a [Block]) -> BoxFuture<'a, Result<(), BlocksError>> {
        let done = self.attempt(|state, part| {
            self.check(state)?;
            let n = (blocks.len() as f64 * part) as usize;
            for block in &blocks[..n] {
                state
                    .blocks
                    .insert((block.file, block.number), block.bytes.clone());
            }
            Ok(())
        });
        Box::pin(async move { done? })
    }

    fn get(&self, file: FileId, numbers: Range<u32>) -> BoxFuture<'_, Result<Vec<Bytes>, BlocksError>> {
        let found = self.attempt(|state, _| {
            let one = |number| state.blocks.get(&(file, number)).cloned().unwrap_or_default();
            numbers.map(one).collect()
        });
        Box::pin(async move { found })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Extent>, BlocksError>> {
        let found = self.attempt(|state, _| {
            let mut extents: BTreeMap<FileId, Extent> = BTreeMap::new();
            for ((file, number), bytes) in state.blocks.iter().filter(|(_, bytes)| !bytes.is_empty()) {
                let extent = Extent {
                    file: *file,
                    last: *number,
                    last_len: bytes.len() as u32,
                };
                extents.insert(*file, extent);
            }
            extents.into_values().collect()
        });
        Box::pin(async move { found })
    }

    fn remove(&self, file: FileId) -> BoxFuture<'_, Result<(), BlocksError>> {
        let done = self.attempt(|state, _| {
            self.check(state)?;
            state.blocks.retain(|(one, _), _| *one != file);
            Ok(())
        });
        Box::pin(async move { done? })
    }
}
