//! The rights that rules, sinks and records need, and no more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use skopos_api::{KubernetesVerb, Loaded, Resource, Rule, Sink};
use skopos_react::rule::SYSTEM_NAMESPACE;

use crate::rule_files::{RuleFiles, name};

/// Who is given the rights.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    /// The name of the service account, and of all roles.
    pub(crate) name: String,
    /// Where Skopos runs.
    pub(crate) namespace: String,
    /// The namespaces that it looks at; all if there are none.
    pub(crate) watch: Vec<String>,
}

impl Who {
    fn is_scoped(&self) -> bool {
        !self.watch.is_empty()
    }

    /// Where of some places it looks. An empty name is the whole cluster.
    fn looked_at(&self, places: Vec<String>) -> Vec<String> {
        let is_seen = |place: &String| self.watch.contains(place);
        match places {
            places if !self.is_scoped() => places,
            places if places.iter().any(String::is_empty) => self.watch.clone(),
            places => places.into_iter().filter(is_seen).collect(),
        }
    }
}

/// Rights in the whole cluster or in one namespace: verbs by group, resource and names.
#[derive(Debug, Default)]
struct Rights(BTreeMap<(String, String, Vec<String>), BTreeSet<String>>);

/// Manifests, and what could not be told.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    pub(crate) objects: Vec<Value>,
    pub(crate) warnings: Vec<String>,
}

/// What is needed, by whom and where. The namespace is empty for the whole cluster.
#[derive(Debug, Default)]
struct Needs {
    rights: BTreeMap<(Subject, String), Rights>,
    warnings: Vec<String>,
}

/// A service account: Skopos' own, or one that it acts as.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Skopos,
    Account { namespace: String, name: String },
}

/// What is known of a kind.
struct Known {
    plural: String,
    namespaced: bool,
}

const READ: &[&str] = &["get", "list", "watch"];
/// The name of the lease of `skopos run`.
pub(crate) const LEASE: &str = "skopos";

/// The manifests for what files hold.
pub(crate) fn manifests(files: &RuleFiles, who: &Who) -> Manifests {
    let mut needs = Needs::default();
    match who.is_scoped() {
        true => own_in_namespaces(&mut needs, who),
        false => own(&mut needs),
    }
    lease(&mut needs, who);
    for loaded in &files.ours {
        let (kind, namespace, name) = name(&loaded.resource);
        if who.is_scoped() && !who.watch.contains(&namespace) {
            let place = "its namespace is not among those to watch";
            needs
                .warnings
                .push(format!("{kind} {namespace}/{name} does not count: {place}"));
            continue;
        }
        match &loaded.resource {
            Resource::Rule(rule) => of_rule(files, loaded, rule, who, &mut needs),
            Resource::Sink(sink) => of_sink(loaded, sink, &mut needs),
            Resource::Record(record) => {
                for scope in &record.spec.watch {
                    let watched = needs.resource(files, &scope.group, &scope.kind);
                    let places = places(&scope.namespaces, &namespace, &watched);
                    needs.read(who, &scope.group, &watched, places);
                }
            }
            Resource::RuleTest(_) => {}
        }
    }
    needs.manifests(who)
}

/// What Skopos needs for itself: its kinds and their status, definitions, and which cluster it is.
fn own(needs: &mut Needs) {
    let skopos = &Subject::Skopos;
    needs.our_kinds("");
    let definitions = "customresourcedefinitions";
    needs.add(skopos, "", "apiextensions.k8s.io", definitions, &[], READ);
    // Its uid tells a cluster that lost its data from one that was away.
    needs.add(skopos, "", "", "namespaces", &["kube-system"], &["get"]);
}

/// The same without anything of the whole cluster.
fn own_in_namespaces(needs: &mut Needs, who: &Who) {
    for namespace in &who.watch {
        needs.our_kinds(namespace);
    }
    if let Some(first) = who.watch.first() {
        needs.add(&Subject::Skopos, first, "", "namespaces", &[first], &["get"]);
    }
}

fn lease(needs: &mut Needs, who: &Who) {
    let skopos = &Subject::Skopos;
    let (place, group) = (who.namespace.as_str(), "coordination.k8s.io");
    needs.add(skopos, place, group, "leases", &[LEASE], &["get", "update"]);
    // What does not exist yet has no name to be allowed by.
    needs.add(skopos, place, group, "leases", &[], &["create"]);
}

fn of_rule(files: &RuleFiles, loaded: &Loaded, rule: &Rule, who: &Who, needs: &mut Needs) {
    let (_, namespace, own) = name(&loaded.resource);
    let watch = &rule.spec.watch;
    let watched = needs.resource(files, &watch.group, &watch.kind);
    let places = places(&watch.namespaces, &namespace, &watched);
    needs.read(who, &watch.group, &watched, places.clone());
    let places = who.looked_at(places);
    let subject = match &rule.spec.service_account_name {
        Some(account) => {
            let subject = Subject::Account {
                namespace: namespace.clone(),
                name: account.clone(),
            };
            act_as(needs, &namespace, account);
            for place in &places {
                needs.add(&subject, place, &watch.group, &watched.plural, &[], READ);
            }
            ask_about(needs, who, &places);
            subject
        }
        None => Subject::Skopos,
    };
    for action in &rule.spec.actions {
        if let Some(verb) = writes(files, &namespace, &action.sink) {
            match action.template.as_ref().and_then(written) {
                Some((group, kind, place)) => {
                    let target = needs.resource(files, &group, &kind);
                    let place = match target.namespaced {
                        true => place.unwrap_or_else(|| namespace.clone()),
                        false => String::new(),
                    };
                    // Not known before it runs: then wherever Skopos looks.
                    let is_anywhere = place.is_empty() && target.namespaced;
                    let places = match is_anywhere && who.is_scoped() {
                        true => who.watch.clone(),
                        false => vec![place],
                    };
                    for place in places {
                        needs.add(&subject, &place, &group, &target.plural, &[], verbs(verb));
                    }
                }
                None => needs.warnings.push(format!(
                    "Rule {namespace}/{own}: what sink {:?} writes is not known before it runs; add its rights by hand",
                    action.sink
                )),
            }
        }
    }
}

/// What Skopos needs to act as an account.
fn act_as(needs: &mut Needs, namespace: &str, account: &str) {
    let names = &[account];
    needs.add(
        &Subject::Skopos,
        namespace,
        "",
        "serviceaccounts",
        names,
        &["impersonate"],
    );
}

/// What Skopos needs to ask what an account may read in some places.
fn ask_about(needs: &mut Needs, who: &Who, places: &[String]) {
    let (skopos, group) = (&Subject::Skopos, "authorization.k8s.io");
    if !who.is_scoped() {
        return needs.add(skopos, "", group, "subjectaccessreviews", &[], &["create"]);
    }
    for place in places {
        needs.add(
            skopos,
            place,
            group,
            "localsubjectaccessreviews",
            &[],
            &["create"],
        );
    }
}

/// Where a rule or record of the cluster looks: an empty name is the whole cluster.
fn places(named: &[String], namespace: &str, watched: &Known) -> Vec<String> {
    match named {
        _ if !watched.namespaced => vec![String::new()],
        [] if namespace == SYSTEM_NAMESPACE => vec![String::new()],
        [] => vec![namespace.to_owned()],
        these => these.to_vec(),
    }
}

/// What a sink of the kind `kubernetes` does, if it is one.
fn writes(files: &RuleFiles, namespace: &str, sink: &str) -> Option<KubernetesVerb> {
    let wanted = ("Sink", namespace.to_owned(), sink.to_owned());
    let found = files
        .ours
        .iter()
        .find(|loaded| name(&loaded.resource) == wanted)?;
    match &found.resource {
        Resource::Sink(sink) => sink.spec.kubernetes.as_ref().map(|action| action.verb),
        _ => None,
    }
}

fn verbs(verb: KubernetesVerb) -> &'static [&'static str] {
    match verb {
        // Server-side apply is a patch, and a creation where there is nothing yet.
        KubernetesVerb::Apply => &["create", "patch"],
        KubernetesVerb::Create => &["create"],
        KubernetesVerb::Patch => &["patch"],
        KubernetesVerb::Delete => &["delete"],
    }
}

/// Group, kind and namespace of what a template makes, if they are plain. An empty namespace is the whole cluster.
fn written(template: &Value) -> Option<(String, String, Option<String>)> {
    let plain = |value: &Value| {
        value
            .as_str()
            .filter(|text| !text.contains("${"))
            .map(str::to_owned)
    };
    let api_version = plain(template.get("apiVersion")?)?;
    let group = api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
        .to_owned();
    let kind = plain(template.get("kind")?)?;
    // Not known before it runs: anywhere.
    let namespace = template.pointer("/metadata/namespace");
    let namespace = namespace.map(|value| plain(value).unwrap_or_default());
    Some((group, kind, namespace))
}

fn of_sink(loaded: &Loaded, sink: &Sink, needs: &mut Needs) {
    let (_, namespace, _) = name(&loaded.resource);
    let mut secrets = BTreeSet::new();
    collect(&json!(sink.spec), &mut secrets);
    for secret in secrets {
        needs.add(
            &Subject::Skopos,
            &namespace,
            "",
            "secrets",
            &[secret.as_str()],
            &["get"],
        );
    }
}

/// The names of all Secrets that a specification names, wherever in it.
fn collect(value: &Value, secrets: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (
                    field.as_str(),
                    value.get("name").and_then(Value::as_str),
                    value.get("key"),
                ) {
                    ("secret", Some(name), Some(_)) => {
                        secrets.insert(name.to_owned());
                    }
                    _ => collect(value, secrets),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, secrets)),
        _ => {}
    }
}

impl Needs {
    fn add(
        &mut self,
        subject: &Subject,
        place: &str,
        group: &str,
        resource: &str,
        names: &[&str],
        verbs: &[&str],
    ) {
        let rights = self
            .rights
            .entry((subject.clone(), place.to_owned()))
            .or_default();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let key = (group.to_owned(), resource.to_owned(), names);
        let known = rights.0.entry(key).or_default();
        known.extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }

    /// Our own kinds, and what is said of them.
    fn our_kinds(&mut self, place: &str) {
        let (skopos, group) = (&Subject::Skopos, skopos_api::GROUP);
        for plural in ["rules", "sinks", "records"] {
            self.add(skopos, place, group, plural, &[], READ);
            self.add(skopos, place, group, &format!("{plural}/status"), &[], &["patch"]);
        }
        self.add(
            skopos,
            place,
            "events.k8s.io",
            "events",
            &[],
            &["create", "patch"],
        );
    }

    /// What capture reads: everywhere, since all rules share it, or where somebody looks.
    fn read(&mut self, who: &Who, group: &str, watched: &Known, places: Vec<String>) {
        if who.is_scoped() && !watched.namespaced {
            let text = format!(
                "{} are in no namespace: they are not watched where only namespaces are",
                watched.plural
            );
            self.warnings.push(text);
            return;
        }
        let places = match who.is_scoped() {
            true => who.looked_at(places),
            false => vec![String::new()],
        };
        for place in places {
            self.add(&Subject::Skopos, &place, group, &watched.plural, &[], READ);
        }
    }

    /// What is known of a kind: from a definition in the files, of a built-in kind, or guessed.
    fn resource(&mut self, files: &RuleFiles, group: &str, kind: &str) -> Known {
        let definitions = files.definitions.iter().map(|one| &one.object);
        let defined = definitions
            .into_iter()
            .find(|one| skopos_control::is_definition_of(one, group, kind));
        if let Some((spec, plural)) =
            defined.and_then(|one| Some((&one["spec"], one["spec"]["names"]["plural"].as_str()?)))
        {
            return Known {
                plural: plural.to_owned(),
                namespaced: spec["scope"] != "Cluster",
            };
        }
        let is_meant = |one: &&skopos_builtin::Kind| {
            let names = [one.kind, one.plural, one.singular];
            one.group == group && (names.contains(&kind) || one.short_names.contains(&kind))
        };
        if let Some(known) = skopos_builtin::kinds().iter().find(is_meant) {
            return Known {
                plural: known.plural.to_owned(),
                namespaced: known.namespaced,
            };
        }
        let guess = guess(kind);
        let text = format!(
            "the plural of {kind} in group {group:?} is not known here and taken to be {guess:?}; give its definition with -f to be sure"
        );
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
        Known {
            plural: guess,
            namespaced: true,
        }
    }

    fn manifests(self, who: &Who) -> Manifests {
        // Pods that need the token say so.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": who.name, "namespace": who.namespace}, "automountServiceAccountToken": false});
        let mut objects = vec![account];
        for ((subject, place), rights) in &self.rights {
            let (namespace, name) = match subject {
                Subject::Skopos => (&who.namespace, &who.name),
                Subject::Account { namespace, name } => (namespace, name),
            };
            objects.extend(role(&role_name(who, subject), place, rights, namespace, name));
        }
        Manifests {
            objects,
            warnings: self.warnings,
        }
    }
}

fn role_name(who: &Who, subject: &Subject) -> String {
    match subject {
        Subject::Skopos => who.name.clone(),
        Subject::Account { namespace, name } => format!("{}:{namespace}:{name}", who.name),
    }
}

/// A role and who has it.
fn role(name: &str, place: &str, rights: &Rights, account_namespace: &str, account: &str) -> [Value; 2] {
    let prefix = if place.is_empty() { "Cluster" } else { "" };
    let mut metadata = json!({"name": name});
    if !place.is_empty() {
        metadata["namespace"] = place.into();
    }
    let api = "rbac.authorization.k8s.io";
    let role = format!("{prefix}Role");
    [
        json!({"apiVersion": format!("{api}/v1"), "kind": role, "metadata": metadata, "rules": rules(rights)}),
        json!({"apiVersion": format!("{api}/v1"), "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}]}),
    ]
}

/// One rule per group, names and verbs.
fn rules(rights: &Rights) -> Vec<Value> {
    let mut grouped: BTreeMap<_, Vec<&String>> = BTreeMap::new();
    for ((group, resource, names), verbs) in &rights.0 {
        grouped.entry((group, names, verbs)).or_default().push(resource);
    }
    let rules = grouped.into_iter().map(|((group, names, verbs), resources)| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    });
    rules.collect()
}

/// The plural as most definitions have it.
fn guess(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.as_str() {
        word if word.ends_with('s') || word.ends_with('x') || word.ends_with("ch") => format!("{word}es"),
        word if word.ends_with('y') && !word.ends_with("ay") && !word.ends_with("ey") => {
            format!("{}ies", &word[..word.len() - 1])
        }
        word => format!("{word}s"),
    }
}
