//! Life of the files: made, kept, renewed, refused.

use super::*;

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn now() -> Timestamp {
    Timestamp::now()
}

#[test]
fn keeps_everything_between_starts() {
    let dir = dir();
    let first = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    let second = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    assert_eq!(first.ca_pem(), second.ca_pem());
    assert_eq!(first.serving.certificate, second.serving.certificate);
    assert_eq!(first.admin(), second.admin());
    assert_eq!(first.token(), second.token());
    assert_eq!(first.token().len(), 64);
    assert_eq!(first.service_account_key_pem(), second.service_account_key_pem());
}

#[cfg(unix)]
#[test]
fn only_this_user_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = dir();
    Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    let entries: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    assert_eq!(entries.len(), 8);
    for entry in entries {
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{:?}",
            entry.path()
        );
    }
}

#[test]
fn renews_the_serving_certificate_when_its_names_change() {
    let dir = dir();
    let first = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    let extra = [
        "10.0.0.7".to_owned(),
        "Example.Test".to_owned(),
        "0:0:0:0:0:0:0:1".to_owned(),
    ];
    let second = Pki::load_or_create(Some(dir.path()), &extra).unwrap();
    assert_ne!(first.serving.certificate, second.serving.certificate);
    assert_eq!(first.ca_pem(), second.ca_pem());
    assert_eq!(first.admin(), second.admin());
    let third = Pki::load_or_create(Some(dir.path()), &extra).unwrap();
    assert_eq!(second.serving.certificate, third.serving.certificate);
}

#[test]
fn renews_leaves_within_thirty_days_of_their_end_and_the_authority_too() {
    let dir = dir();
    let after = |days: i64| now().checked_add(SignedDuration::from_hours(days * 24)).unwrap();
    let first = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    let second = Pki::load_or_create_at(Some(dir.path()), &[], after(300)).unwrap();
    assert_eq!(first.admin(), second.admin());
    let third = Pki::load_or_create_at(Some(dir.path()), &[], after(340)).unwrap();
    assert_ne!(first.admin(), third.admin());
    assert_ne!(first.serving.certificate, third.serving.certificate);
    assert_eq!(first.ca_pem(), third.ca_pem());
    let fourth = Pki::load_or_create_at(Some(dir.path()), &[], after(3630)).unwrap();
    assert_ne!(first.ca_pem(), fourth.ca_pem());
    assert_eq!(first.token(), fourth.token());
}

#[test]
fn renews_what_another_authority_signed_and_what_lost_its_key() {
    let (dir, other) = (dir(), dir());
    let first = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    Pki::load_or_create(Some(other.path()), &[]).unwrap();
    for name in ["admin.crt", "admin.key", "apiserver.key"] {
        std::fs::copy(other.path().join(name), dir.path().join(name)).unwrap();
    }
    let second = Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    assert_ne!(first.admin(), second.admin());
    assert_ne!(first.serving.certificate, second.serving.certificate);
    assert!(
        second
            .serving()
            .unwrap()
            .server_config(&second.client_authority(None).unwrap())
            .is_ok()
    );
}

#[test]
fn goes_on_after_a_start_that_was_cut_short() {
    let dir = dir();
    Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
    assert!(Pki::load_or_create(Some(dir.path()), &[]).is_ok());
}

fn message_after(damage: impl Fn(&Path)) -> String {
    let dir = dir();
    Pki::load_or_create(Some(dir.path()), &[]).unwrap();
    damage(dir.path());
    Pki::load_or_create(Some(dir.path()), &[])
        .unwrap_err()
        .to_string()
}

#[test]
fn names_the_bad_file_and_what_to_do() {
    let overwrite = |name: &'static str, content: &'static str| {
        move |dir: &Path| std::fs::write(dir.join(name), content).unwrap()
    };
    let message = message_after(overwrite("ca.crt", "garbage"));
    assert!(
        message.contains("ca.crt is not a certificate") && message.contains("delete it"),
        "{message}"
    );
    let message = message_after(overwrite("apiserver.key", ""));
    assert!(
        message.contains("apiserver.key is not a private key"),
        "{message}"
    );
    let message = message_after(overwrite("token", "short\n"));
    assert!(
        message.contains("token is not a token (it must be at least 16"),
        "{message}"
    );
    let message = message_after(|dir| std::fs::remove_file(dir.join("ca.key")).unwrap());
    assert!(message.contains("ca.key is missing"), "{message}");
}

#[test]
fn refuses_names_that_cannot_be() {
    let error = Pki::load_or_create(None, &["bücher".to_owned()]).unwrap_err();
    assert!(matches!(error, PkiError::Name { .. }), "{error:?}");
}

#[test]
fn says_which_directory_cannot_be_written() {
    let dir = dir();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Pki::load_or_create(Some(&file.join("pki")), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("file/pki"), "{error}");
}
