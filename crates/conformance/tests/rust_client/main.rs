//! `kube`, the Rust client: every behaviour over TLS and, on the embedded server, without a socket.

mod leading;
mod objects;
mod patching;
mod server;
mod watching;
mod writing;

/// Makes of each check two tests of its name.
macro_rules! behaviours {
    ($($name:ident: $check:path,)*) => {
        mod over_tls {
            $(#[tokio::test]
            async fn $name() -> anyhow::Result<()> {
                crate::server::over_tls(stringify!($name), async |server| $check(&server).await).await
            })*
        }

        mod without_a_socket {
            $(#[tokio::test]
            async fn $name() -> anyhow::Result<()> {
                crate::server::without_a_socket(stringify!($name), async |server| $check(&server).await).await
            })*
        }
    };
}

behaviours! {
    writes_typed_objects_and_refuses_stale_ones: crate::objects::typed,
    defaults_objects_and_counts_their_generations: crate::objects::generations,
    lists_in_pages_by_label: crate::objects::pages,
    deletes_a_collection: crate::objects::collection,
    patches_by_operations: crate::patching::json_patch,
    applies_for_two_managers: crate::patching::server_side_apply,
    keeps_status_and_scale_apart: crate::writing::status_and_scale,
    refuses_a_stale_update: crate::writing::stale_update_conflicts,
    holds_a_deletion_for_a_finalizer: crate::writing::finalizer_holds_deletion,
    watches_by_label: crate::watching::by_label,
    resumes_a_watch: crate::watching::resumes,
    begins_anew_from_an_expired_version: crate::watching::from_expired_version,
    elects_one_leader: crate::leading::election,
}
