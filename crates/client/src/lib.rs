//! Talk to an API server: connection, discovery, dynamic access, list and watch streams.
//!
//! [`connect()`] finds the server, [`discover`] asks what it serves, [`Catalog::resolve`] turns a user's word into
//! a [`Resource`], and [`Api`] does things with it. To watch without end, give an [`Api`] or a [`Discovery`] to the
//! informers of `skopos-informer`.
//!
//! ```no_run
//! # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
//! use skopos_client::{Api, ListParams, Sources, connect, discover};
//!
//! let client = connect(&Sources { home: Some("/home/me/.kube/config".into()), ..Sources::default() }).await?;
//! let catalog = discover(&client).await?;
//! let applications = Api::all(&client, catalog.resolve("app")?.resource);
//! let mut list = applications.list(&ListParams::default());
//! while let Some(object) = list.next().await? {
//!     println!("{}", object.key());
//! }
//! # Ok(())
//! # }
//! ```

mod account;
mod api;
mod body;
mod call;
mod catalog;
mod collections;
mod connect;
mod discovery;
mod error;
mod guard;
mod history;
mod http_client;
mod limits;
mod lines;
mod list;
mod list_watch;
mod malformed;
mod requests;
mod resource;
mod sips;
mod split;
mod transport;
mod typed;
mod warning;
mod watch;

pub use account::ServiceAccount;
pub use api::{Api, DeleteParams, Patch, Propagation, WriteParams};
pub use call::Call;
pub use catalog::{Catalog, GroupFailure, Resolved, UnknownResource};
pub use collections::Discovery;
pub use connect::{ConnectError, InCluster, Pod, SERVICE_ACCOUNT_DIR, Sources, Tried, connect};
pub use discovery::discover;
pub use error::Error;
pub use guard::{Fate, WriteGuard};
pub use http_client::{Answer, Client};
pub use limits::{Limits, Rate, Retry};
pub use list::{ListParams, ListStream};
pub use resource::Resource;
pub use split::ListMeta;
pub use typed::{Scale, TypedApi, TypedList, from_object};
pub use watch::{WatchParams, WatchStream};
