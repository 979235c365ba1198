//! Files in PostgreSQL or NATS JetStream: one writer at a time, for the journal and the state of deliveries of several
//! replicas.
//!
//! Start at [`Remote`]: it is opened at an address ([`JournalUrl`]), and has a [`Disk`](skopos_disk::Disk) for the
//! journal and a [`redb::StorageBackend`] for the state of deliveries. What differs between servers is the trait
//! [`Blocks`]: numbered blocks of numbered files, written in order, by the one who opened them last.
//!
//! # What is kept where
//!
//! File 0 has one block: the names of all files, with their numbers. A file is made, renamed or removed by writing that
//! block anew; numbers are never used again. A file ends with its last block that is not empty. Whoever opens takes an
//! epoch, and the server refuses writes of every epoch before.

mod blocks;
mod bridge;
mod cache;
mod disk;
mod file;
mod health;
#[cfg(feature = "sim")]
mod memory;
mod metrics;
mod names;
mod nats;
mod postgres;
mod redb_backend;
mod remote;
mod tls;
mod url;

#[cfg(feature = "sim")]
pub use crate::memory::{MemoryBlocks, MemoryServer, Troubles};
pub use crate::{
    blocks::{Block, Blocks, BlocksError, Extent, FileId},
    disk::RemoteDisk,
    nats::NatsBlocks,
    postgres::PostgresBlocks,
    redb_backend::RemoteBackend,
    remote::{OpenError, Remote, RemoteConfig},
    url::{BadUrl, JournalUrl, NatsServer, PostgresServer},
};
