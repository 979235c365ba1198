//! One file and one type per command.

mod apiserver;
mod apply;
mod completion;
mod delete;
mod demo;
mod etcd;
mod get;
mod history;
mod run;
mod up;
mod version;
mod watch;

pub(crate) use apiserver::Apiserver;
pub(crate) use apply::Apply;
pub(crate) use completion::Completion;
pub(crate) use delete::Delete;
pub(crate) use demo::Demo;
pub(crate) use etcd::Etcd;
pub(crate) use get::Get;
pub(crate) use history::History;
pub(crate) use run::Run;
pub(crate) use up::Up;
pub(crate) use version::Version;
pub(crate) use watch::Watch;
