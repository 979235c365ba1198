//! `skopos get`: show objects.

use clap::{Args, ValueEnum};
use serde_json::Value;
use skopos_client::{Api, Catalog, Client, ListParams, Resource};
use skopos_object::{Content, ManagedFields};

use crate::connection::{Connection, Scope, Select};
use crate::failure::{EXIT_CODES, Failed, Failure};
use crate::names::{Target, resolve, targets};
use crate::output::{ObjectFormat, Table, WideColumns, documents, without_managed_fields};
use crate::terminal;

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PAGE: u32 = 500;

/// Show objects of any resource
///
/// TYPE is a kind, plural, singular or short name in any case, alone or with its group: `app`, `Application`,
/// `applications.myapps.example.com`, `applications.v1.myapps.example.com`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos get applications
  skopos get app web -o yaml
  skopos get app/web deployment/web -n shop
  skopos get pods,services -A -l tier=web

{EXIT_CODES}"))]
pub(crate) struct Get {
    /// TYPE [NAME…], TYPE/NAME… or TYPE,TYPE
    #[arg(required = true, value_name = "TYPE [NAME]…")]
    what: Vec<String>,
    /// How to show them
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Leave out the headings of the table
    #[arg(long)]
    no_headers: bool,
    /// Add a column with the labels
    #[arg(long)]
    show_labels: bool,
    /// Keep metadata.managedFields in JSON and YAML
    #[arg(long)]
    show_managed_fields: bool,
    /// Treat objects that do not exist as if they had not been asked for
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

/// What one command reads: a resource, and the names if only some objects are meant.
struct Part {
    api: Api,
    names: Vec<String>,
}

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let targets = targets(&self.what)?;
        let (client, catalog) = self.connection.discover().await?;
        let mut parts = Vec::new();
        for target in targets {
            parts.extend(self.parts(&client, &catalog, &target)?);
        }
        match self.output {
            Format::Table => self.tables(&client, &parts, WideColumns::Hidden).await,
            Format::Wide => self.tables(&client, &parts, WideColumns::Shown).await,
            Format::Json => self.objects(&parts, ObjectFormat::Json).await,
            Format::Yaml => self.objects(&parts, ObjectFormat::Yaml).await,
            Format::Name => self.object_names(&parts).await,
        }
    }

    fn parts(&self, client: &Client, catalog: &Catalog, target: &Target) -> Result<Vec<Part>, Failure> {
        let category = catalog.category(&target.word);
        let resources = if category.is_empty() {
            vec![resolve(catalog, &target.word)?]
        } else {
            category
        };
        let namespace = self.scope.namespace(client);
        if namespace.is_none() && !target.names.is_empty() && resources.iter().any(|r| r.namespaced) {
            let text = "a resource cannot be retrieved by name across all namespaces";
            return Err(Failure::usage(text).hint("leave out -A and name the namespace with -n"));
        }
        let part = |resource: &Resource| {
            let api = match &namespace {
                Some(namespace) => Api::namespaced(client, resource, namespace),
                None => Api::all(client, resource),
            };
            Part {
                api,
                names: target.names.clone(),
            }
        };
        Ok(resources
            .into_iter()
            .filter(|r| r.supports("list"))
            .map(part)
            .collect())
    }

    fn params(&self) -> ListParams {
        ListParams {
            label_selector: self.select.labels.clone(),
            field_selector: self.select.fields.clone(),
            limit: PAGE,
            ..ListParams::default()
        }
    }

    async fn tables(&self, client: &Client, parts: &[Part], wide: WideColumns) -> Result<(), Failure> {
        let mut failed = Failed::default();
        let mut printed = 0;
        for part in parts {
            let table = match self.table(part, wide, parts.len() > 1, &mut failed).await {
                Ok(table) => table,
                Err(failure) => {
                    failed.note(&failure);
                    continue;
                }
            };
            if table.rows.is_empty() {
                continue;
            }
            let gap = if printed > 0 { "\n" } else { "" };
            terminal::write(format!("{gap}{}", table.render(!self.no_headers)).as_bytes())?;
            printed += table.rows.len();
        }
        if printed == 0 && failed.worst.is_none() && !self.ignore_not_found {
            self.nothing_found(client, parts);
        }
        failed.end()
    }

    fn nothing_found(&self, client: &Client, parts: &[Part]) {
        let namespaced = parts.iter().all(|part| part.api.resource().namespaced);
        match self.scope.namespace(client).filter(|_| namespaced) {
            Some(namespace) => terminal::note(&format!("No resources found in {namespace} namespace.")),
            None => terminal::note("No resources found"),
        }
    }

    async fn table(
        &self,
        part: &Part,
        wide: WideColumns,
        prefix: bool,
        failed: &mut Failed,
    ) -> Result<Table, Failure> {
        let mut whole = Table::default();
        if part.names.is_empty() {
            let mut params = self.params();
            loop {
                let answer = part.api.read_as(None, AS_TABLE, &params).await?.value;
                self.add_page(&mut whole, part, &answer, wide, prefix)?;
                params.continue_token = answer["metadata"]["continue"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                if params.continue_token.is_empty() {
                    return Ok(whole);
                }
            }
        }
        for name in &part.names {
            match part
                .api
                .read_as(Some(name), AS_TABLE, &ListParams::default())
                .await
            {
                Ok(answer) => self.add_page(&mut whole, part, &answer.value, wide, prefix)?,
                Err(error) if error.is_not_found() && self.ignore_not_found => {}
                Err(error) => failed.note(&error.into()),
            }
        }
        Ok(whole)
    }

    fn add_page(
        &self,
        whole: &mut Table,
        part: &Part,
        page: &Value,
        wide: WideColumns,
        prefix: bool,
    ) -> Result<(), Failure> {
        let Some(mut table) = Table::parse(page, wide) else {
            return Err(Failure::failed("the server does not offer tables").hint("use -o json, yaml or name"));
        };
        if prefix {
            let kind = part.api.resource().qualified_kind();
            for name in table.rows.iter_mut().filter_map(|row| row.first_mut()) {
                *name = format!("{kind}/{name}");
            }
        }
        let rows = page["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        if self.scope.all_namespaces && part.api.resource().namespaced {
            let namespace = |row: &Value| text(&row["object"]["metadata"]["namespace"]);
            table.prepend("NAMESPACE", rows.iter().map(namespace).collect());
        }
        if self.show_labels {
            table.append(
                "LABELS",
                rows.iter()
                    .map(|row| labels(&row["object"]["metadata"]["labels"]))
                    .collect(),
            );
        }
        if whole.headings.is_empty() {
            *whole = table;
        } else {
            whole.extend(table);
        }
        Ok(())
    }

    async fn read(&self, parts: &[Part], failed: &mut Failed) -> Vec<(Resource, Value)> {
        let mut all = Vec::new();
        for part in parts {
            let resource = part.api.resource();
            let mut keep = |value: Value| {
                let value = if self.show_managed_fields {
                    value
                } else {
                    without_managed_fields(value)
                };
                all.push((resource.clone(), value));
            };
            for name in &part.names {
                match part.api.get(name).await {
                    Ok(value) => keep(value),
                    Err(error) if error.is_not_found() && self.ignore_not_found => {}
                    Err(error) => failed.note(&error.into()),
                }
            }
            if part.names.is_empty() {
                let content = Content::Full(if self.show_managed_fields {
                    ManagedFields::Keep
                } else {
                    ManagedFields::Drop
                });
                let mut list = part.api.clone().with_content(content).list(&self.params());
                loop {
                    match list.next().await {
                        Ok(Some(object)) => keep(object.to_value()),
                        Ok(None) => break,
                        Err(error) => {
                            failed.note(&error.into());
                            break;
                        }
                    }
                }
            }
        }
        all
    }

    async fn objects(&self, parts: &[Part], format: ObjectFormat) -> Result<(), Failure> {
        let mut failed = Failed::default();
        let objects: Vec<Value> = self
            .read(parts, &mut failed)
            .await
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        let single = matches!(parts, [part] if part.names.len() == 1);
        if !(single && objects.is_empty()) {
            documents(&mut terminal::stdout(), format, objects, single)?;
        }
        failed.end()
    }

    async fn object_names(&self, parts: &[Part]) -> Result<(), Failure> {
        let mut failed = Failed::default();
        for (resource, object) in self.read(parts, &mut failed).await {
            terminal::say(&format!(
                "{}/{}",
                resource.qualified_kind(),
                text(&object["metadata"]["name"])
            ))?;
        }
        failed.end()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn labels(value: &Value) -> String {
    let pairs: Vec<String> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", text(v)))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}
