//! What is asked of blocks.

use skopos_remote::{BlocksError, Extent, FileId};

use crate::support::{Server, block, is_taken_over, texts};

async fn check_blocks(server: Server) {
    let blocks = server.blocks().await;
    assert_eq!(blocks.list().await.unwrap(), []);
    blocks
        .put(&[block(1, 0, "abc"), block(1, 1, "de"), block(7, 0, "x")])
        .await
        .unwrap();
    // The last block grows, others are left alone.
    blocks.put(&[block(1, 1, "def"), block(1, 2, "g")]).await.unwrap();
    assert_eq!(texts(&*blocks, 1, 5).await, ["abc", "def", "g", "", ""]);
    let extent = |file, last, last_len| Extent {
        file: FileId(file),
        last,
        last_len,
    };
    assert_eq!(blocks.list().await.unwrap(), [extent(1, 2, 1), extent(7, 0, 1)]);
    // Cut: empty blocks do not count.
    blocks.put(&[block(1, 2, ""), block(1, 1, "d")]).await.unwrap();
    blocks.put(&[block(9, 0, vec![0; 300_000])]).await.unwrap();
    blocks.put(&[block(9, 0, "")]).await.unwrap();
    assert_eq!(blocks.list().await.unwrap(), [extent(1, 1, 1), extent(7, 0, 1)]);
    blocks.remove(FileId(7)).await.unwrap();
    blocks.remove(FileId(7)).await.unwrap();
    let again = server.blocks().await;
    assert_eq!(again.list().await.unwrap(), [extent(1, 1, 1)]);
    assert_eq!(texts(&*again, 1, 3).await, ["abc", "d", ""]);
    let many: Vec<_> = (0..300).map(|n| block(3, n, format!("block {n}"))).collect();
    again.put(&many).await.unwrap();
    assert_eq!(texts(&*again, 3, 300).await[299], "block 299");
    assert_eq!(again.list().await.unwrap()[1], extent(3, 299, 9));
}

async fn check_take_over(server: Server) {
    let first = server.blocks().await;
    first.put(&[block(1, 0, "first")]).await.unwrap();
    let second = server.blocks().await;
    for _ in 0..2 {
        let refused = first.put(&[block(1, 0, "late"), block(2, 0, "late")]).await;
        assert!(is_taken_over(&refused), "{refused:?}");
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("another replica took over") && !text.contains("correct-horse"),
            "{text}"
        );
    }
    second.put(&[block(1, 1, "second")]).await.unwrap();
    let refused = first.put(&[block(1, 0, "late")]).await;
    assert!(is_taken_over(&refused), "{refused:?}");
    // It may fail or do nothing.
    let _ = first.remove(FileId(1)).await;
    assert_eq!(texts(&*second, 1, 3).await, ["first", "second", ""]);
    assert_eq!(texts(&*second, 2, 1).await, [""]);
    let third = server.blocks().await;
    let refused = second.put(&[block(1, 0, "late")]).await;
    assert!(is_taken_over(&refused), "{refused:?}");
    assert_eq!(texts(&*third, 1, 2).await, ["first", "second"]);
}

async fn check_outage(mut server: Server) {
    let blocks = server.blocks().await;
    blocks.put(&[block(1, 0, "before")]).await.unwrap();
    server.stop().await;
    let failed = blocks.put(&[block(1, 1, "during")]).await;
    assert!(matches!(failed, Err(BlocksError::Unavailable(_))), "{failed:?}");
    server.start_again().await;
    while let Err(error) = blocks.put(&[block(1, 1, "after")]).await {
        assert!(matches!(error, BlocksError::Unavailable(_)), "{error:?}");
        tokio::task::yield_now().await;
    }
    while blocks.get(FileId(1), 0..1).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&*blocks, 1, 2).await, ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_blocks() {
    check_blocks(Server::memory()).await;
    check_take_over(Server::memory()).await;
    check_outage(Server::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_blocks() {
    check_blocks(Server::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_whoever_was_taken_over() {
    check_take_over(Server::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_may_be_away_for_a_while() {
    check_outage(Server::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_keeps_blocks() {
    check_blocks(Server::nats().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_refuses_whoever_was_taken_over() {
    check_take_over(Server::nats().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_may_be_away_for_a_while() {
    check_outage(Server::nats().await).await;
}
