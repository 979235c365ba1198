//! The objects that exist, page by page and over several collections.

use skopos_disk::SimDisk;

use super::*;

/// One namespace of widgets.
fn part(namespace: &str) -> About {
    About {
        name: format!("widgets.example.com in {namespace}"),
        ..about()
    }
}

fn created(collection: u32, namespace: &str, name: &str) -> Draft {
    let object = object(&format!(
        "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: {namespace}, \
         uid: {namespace}-{name}, resourceVersion: '1'}}}}"
    ));
    let Draft::Change(meta, bodies) = change(Op::Created, None, Some(&object)) else {
        unreachable!("a change was made");
    };
    Draft::Change(Meta { collection, ..meta }, bodies)
}

/// Which objects each page shows, by what makes them what they are.
async fn pages(journal: &Journal, limit: usize) -> Vec<Vec<(ObjectKey, Seq)>> {
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let found = journal.current(&Wanted::default(), after.as_ref(), limit).await;
        let found: Vec<_> = found
            .unwrap()
            .into_iter()
            .map(|entry| (entry.key, entry.seq))
            .collect();
        let Some((last, _)) = found.last() else {
            return pages;
        };
        after = Some(last.clone());
        pages.push(found);
    }
}

/// Several namespaces are several collections, and one that was captured earlier may come later by name. A page must not
/// end behind objects of another collection that it does not show: they would never be told.
#[tokio::test]
async fn pages_over_several_collections_show_every_object_once() {
    let sizes = [[1, 0, 0], [0, 3, 1], [2, 2, 2], [1, 4, 3], [5, 1, 4]];
    for (sizes, order) in sizes
        .iter()
        .flat_map(|sizes| [["c", "b", "a"], ["b", "a", "c"], ["a", "b", "c"]].map(|order| (*sizes, order)))
    {
        let journal = open(&SimDisk::default());
        let mut expected = Vec::new();
        for (number, (namespace, n)) in (0..).zip(order.into_iter().zip(sizes)) {
            write(&journal, 0, vec![Draft::Collection(part(namespace))]).await;
            for i in 0..n {
                let name = format!("w{i}");
                let seq = write(&journal, 1, vec![created(number, namespace, &name)]).await;
                expected.push((ObjectKey::namespaced(namespace, name), seq));
            }
        }
        expected.sort();
        for limit in 1..=expected.len() + 1 {
            let pages = pages(&journal, limit).await;
            assert_eq!(pages.concat(), expected, "{order:?} {sizes:?} by {limit}");
            let is_full = |page: &Vec<_>| page.len() == limit;
            assert!(
                pages.iter().rev().skip(1).all(is_full),
                "{order:?} {sizes:?} by {limit}"
            );
        }
    }
}

/// A kind that was captured whole and later by namespace has an object under the same key twice.
#[tokio::test]
async fn a_page_does_not_end_between_objects_of_the_same_key() {
    let journal = open(&SimDisk::default());
    let mut expected = Vec::new();
    for number in 0..3 {
        write(&journal, 0, vec![Draft::Collection(part(&number.to_string()))]).await;
        for name in ["w0", "w1", "w2"] {
            let seq = write(&journal, 1, vec![created(number, "home", name)]).await;
            expected.push((ObjectKey::namespaced("home", name), seq));
        }
    }
    expected.sort();
    for limit in 1..=10 {
        assert_eq!(pages(&journal, limit).await.concat(), expected, "by {limit}");
    }
}

/// What is known of an object is its key, UID and version; one damaged state must not hide all the others.
#[tokio::test]
async fn an_object_whose_last_state_is_damaged_comes_without_it() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    write(&journal, 0, vec![Draft::Collection(part("home"))]).await;
    for name in ["w0", "w1", "w2"] {
        write(&journal, 1, vec![created(0, "home", name)]).await;
    }
    let place = journal.shared.read().known(0, "home/w1").unwrap().location;
    disk.edit(&place.segment.name(), |bytes| {
        bytes[place.offset as usize + 40] ^= 1;
    });
    let found = journal.current(&Wanted::default(), None, 10).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|entry| (&*entry.key.name, &*entry.uid, entry.seq.0, entry.after.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("w0", "home-w0", 1, true),
            ("w1", "home-w1", 2, false),
            ("w2", "home-w2", 3, true)
        ]
    );
    assert_eq!(journal.damage().len(), 1);
}

/// A batch of changes was as large as its objects: hundreds of megabytes.
#[tokio::test]
async fn a_read_ends_after_a_few_large_changes_and_goes_on_from_there() {
    let journal = open(&SimDisk::default());
    write(&journal, 0, vec![Draft::Collection(about())]).await;
    for i in 0..20 {
        let text = "x".repeat(1 << 20);
        let large = object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: w{i}, namespace: home, uid: u{i}, \
             resourceVersion: '{}'}}, spec: {{text: {text}}}}}",
            i + 1
        ));
        write(&journal, i, vec![change(Op::Created, None, Some(&large))]).await;
    }
    let (mut after, mut sizes) = (Seq(0), Vec::new());
    while after < journal.head() {
        let (found, looked) = journal.read(after, &Wanted::default(), 256).await.unwrap();
        assert_eq!(found.last().map(|entry| entry.seq), Some(looked));
        sizes.push(found.len());
        after = looked;
    }
    assert_eq!(sizes, [8, 8, 4]);
}
