//! Which names a kind allows.

use super::check::{dns1123_label, dns1123_subdomain};
use crate::kind::Kind;

/// Complaints about the name of an object; most kinds want a DNS subdomain.
pub fn name_errors(kind: &Kind, name: &str) -> Vec<String> {
    match (kind.group, kind.kind) {
        ("", "Namespace" | "Service") => label(name),
        ("rbac.authorization.k8s.io", _) => path_segment(name),
        ("networking.k8s.io", "IPAddress") => match name.parse::<std::net::IpAddr>() {
            Ok(address) if address.to_string() == name => Vec::new(),
            _ => vec![
                "must be a valid IP address in canonical form (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned(),
            ],
        },
        ("batch", "CronJob") => {
            let mut errors = dns1123_subdomain(name);
            // A job's name is the cron job's and eleven characters more.
            if name.len() > 52 {
                errors.push("must be no more than 52 characters".to_owned());
            }
            errors
        }
        _ => dns1123_subdomain(name),
    }
}

/// A DNS label; dots get a message of their own.
fn label(name: &str) -> Vec<String> {
    if name.contains('.') {
        return vec!["must not contain dots".to_owned()];
    }
    dns1123_label(name)
}

/// Anything that can stand in a path.
fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => return vec![format!("may not be '{name}'")],
        _ => {}
    }
    let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
    parts.map(|part| format!("may not contain '{part}'")).collect()
}
