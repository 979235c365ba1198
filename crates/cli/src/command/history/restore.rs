//! `skopos history restore`: brings an object back to what it was.

mod fill;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use skopos_client::{Api, WriteParams};
use skopos_control::ObjectAt;

use self::fill::Filled;
use super::{present, target};
use crate::admin_client::DataDir;
use crate::connection::Connection;
use crate::diff_view::{created, updated};
use crate::failure::{EXIT_CODES, Failure};
use crate::merge::LAST_APPLIED;
use crate::moment::Moment;
use crate::names::resolve;
use crate::output::{Format, without_managed_fields};
use crate::terminal;

/// Bring an object back to what it was
///
/// Shows what would change, as the server checked it, and changes nothing; --yes does it. The status, finalizers and
/// owners are left as they are now; an object that is gone is made anew, without them. Values that were redacted were
/// never written down and cannot be restored: they are named, and stay as they are now, or are left out where nothing
/// tells which they are now, as in a list whose items have no names.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos history restore app web -n shop --at 10m
  skopos history restore app web -n shop --at 2026-11-16T08:00:00Z --yes

{EXIT_CODES}"))]
pub(crate) struct Restore {
    /// TYPE NAME or TYPE/NAME
    #[arg(required = true, value_name = "TYPE NAME")]
    what: Vec<String>,
    /// Its namespace; otherwise the one that the context names
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// When it was as it should be
    #[arg(long, value_name = "TIME", required = true)]
    at: Moment,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// How to show what is done
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
    #[command(flatten)]
    connection: Connection,
}

impl Restore {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (word, name) = target(&self.what)?;
        let name =
            name.ok_or_else(|| Failure::usage("restore which object? Write its name after the type"))?;
        let admin = self.data_dir.open().await?;
        let (client, catalog) = self.connection.discover().await?;
        let resource = resolve(&catalog, &word)?.clone();
        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let question = ObjectAt {
            resource: resource.group_resource().to_string(),
            namespace: Some(if resource.namespaced {
                namespace.clone()
            } else {
                String::new()
            }),
            name: name.clone(),
            at: self.at.before(Timestamp::now()),
        };
        let old = present(&question, admin.ask(&question).await?)?;
        let api = Api::namespaced(&client, &resource, &namespace);
        let live = api.find(&name).await?;
        let plan = Plan::new(old, live);
        let after = plan.write(&api, &name, !self.yes).await?;
        self.show(&plan, &after, &format!("{}/{name}", resource.qualified_kind()))
    }

    fn show(&self, plan: &Plan, after: &Value, name: &str) -> Result<(), Failure> {
        let dry = if self.yes {
            ""
        } else {
            " (dry run: nothing was changed; --yes does it)"
        };
        let op = if plan.live.is_some() {
            "restored"
        } else {
            "created anew"
        };
        if self.output == Format::Json {
            let line = json!({"op": op, "name": name, "dryRun": !self.yes, "redacted": plan.redacted.redacted,
                "leftOut": plan.redacted.left_out, "object": without_managed_fields(after.clone())});
            return Ok(terminal::say(&line.to_string())?);
        }
        let (left_out, kept) = (&plan.redacted.left_out, plan.kept());
        for (paths, what) in [(left_out, "are left out"), (&kept, "stay as they are now")] {
            if !paths.is_empty() {
                let paths = paths.join(", ");
                terminal::warn(&format!(
                    "redacted values were never written down and {what}: {paths}"
                ));
            }
        }
        let fields = match &plan.live {
            Some(live) => updated(live, after),
            None => created(after),
        };
        terminal::say(&format!("{name} {op}{dry}"))?;
        Ok(terminal::write(fields.as_bytes())?)
    }
}

/// What is to be written.
#[derive(Debug)]
struct Plan {
    live: Option<Value>,
    wanted: Value,
    /// The fields whose old values are not known.
    redacted: Filled,
}

impl Plan {
    fn new(old: Value, live: Option<Value>) -> Self {
        let mut redacted = Filled::default();
        let mut wanted = match redacted.fill(old, live.as_ref(), "") {
            Some(wanted) => wanted,
            None => json!({}),
        };
        let live_metadata = live.as_ref().and_then(|live| live["metadata"].as_object());
        if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
            keep_of_now(metadata, live_metadata);
        }
        // The status says how things are, not how they should be.
        if let Some(top) = wanted.as_object_mut() {
            top.remove("status");
            if let Some(status) = live.as_ref().and_then(|live| live.get("status")) {
                top.insert("status".into(), status.clone());
            }
        }
        redacted.retain(|path| !path.starts_with("status."));
        Self {
            live,
            wanted,
            redacted,
        }
    }

    /// The redacted fields that stay as they are now.
    fn kept(&self) -> Vec<String> {
        let Filled { redacted, left_out } = &self.redacted;
        let kept = redacted.iter().filter(|path| !left_out.contains(path));
        kept.cloned().collect()
    }

    async fn write(&self, api: &Api, name: &str, dry_run: bool) -> Result<Value, Failure> {
        let params = WriteParams {
            dry_run,
            field_manager: "skopos".to_owned(),
            field_validation: "Warn".to_owned(),
        };
        let answer = match &self.live {
            Some(_) => api.update(name, &self.wanted, &params).await?,
            None => api.create(&self.wanted, &params).await?,
        };
        for warning in &answer.warnings {
            terminal::warn(warning);
        }
        Ok(answer.value)
    }
}

/// What the server keeps, and what others rely on, is as it is now; of an object that is gone there is none.
fn keep_of_now(metadata: &mut Map<String, Value>, live: Option<&Map<String, Value>>) {
    let of_now = [
        "resourceVersion",
        "uid",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
        "ownerReferences",
    ];
    for name in of_now {
        metadata.remove(name);
        if let Some(value) = live.and_then(|live| live.get(name)) {
            metadata.insert(name.into(), value.clone());
        }
    }
    // Never written down, but `apply` needs it.
    let applied = live.and_then(|live| live.get("annotations")?.get(LAST_APPLIED));
    if let Some(applied) = applied {
        metadata.entry("annotations").or_insert_with(|| json!({}))[LAST_APPLIED] = applied.clone();
    }
}

#[cfg(test)]
mod tests {
    use skopos_journal::REDACTED;

    use super::*;

    #[test]
    fn what_belongs_to_the_server_stays_and_the_rest_comes_back() {
        let old = json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "3", "labels": {"x": "1"},
            "finalizers": ["old"]}, "spec": {"size": 1}, "status": {"ready": false}});
        let live = json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "9", "finalizers": ["new"]},
            "spec": {"size": 2}, "status": {"ready": true}});
        let plan = Plan::new(old.clone(), Some(live));
        assert_eq!(
            plan.wanted,
            json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "9", "labels": {"x": "1"},
                "finalizers": ["new"]}, "spec": {"size": 1}, "status": {"ready": true}})
        );
        let anew = Plan::new(old, None);
        assert_eq!(
            anew.wanted,
            json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"size": 1}})
        );
    }

    #[test]
    fn redacted_values_are_never_written() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"password": REDACTED, "users": [{"n": "x", "t": REDACTED}]}});
        let live = json!({"metadata": {"name": "a"}, "spec": {"password": "now", "users": []}});
        let plan = Plan::new(old.clone(), Some(live));
        assert_eq!(
            plan.wanted["spec"],
            json!({"password": "now", "users": [{"n": "x"}]})
        );
        assert_eq!(plan.redacted.redacted, ["spec.password", "spec.users[0].t"]);
        assert_eq!(plan.redacted.left_out, ["spec.users[0].t"]);
        let anew = Plan::new(old, None);
        assert_eq!(anew.wanted["spec"], json!({"users": [{"n": "x"}]}));
    }

    #[test]
    fn the_annotation_of_apply_is_kept() {
        let old = json!({"metadata": {"name": "a"}});
        let live = json!({"metadata": {"name": "a", "annotations": {LAST_APPLIED: "{}", "b": "1"}}});
        let plan = Plan::new(old, Some(live));
        assert_eq!(
            plan.wanted["metadata"]["annotations"],
            json!({LAST_APPLIED: "{}"})
        );
    }
}
