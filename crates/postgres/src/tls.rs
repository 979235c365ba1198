//! Between `tokio-postgres` and `rustls`.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::future::BoxFuture;
use rustls::{
    ClientConfig,
    pki_types::{InvalidDnsNameError, ServerName},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::TlsConnector;

/// Makes connections secure.
#[derive(Clone, Debug)]
pub struct MakeTls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl MakeTls {
    /// Secures connections so, and asks for a certificate of the host that is connected to.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self { config, name: None }
    }

    /// Asks for a certificate of this name instead.
    #[must_use]
    pub fn with_name(mut self, name: Option<ServerName<'static>>) -> Self {
        self.name = name;
        self
    }
}

/// Makes one connection secure.
#[derive(Debug)]
pub struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// A secure connection.
#[derive(Debug)]
pub struct Secured(Box<tokio_rustls::client::TlsStream<Socket>>);

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Secured;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, InvalidDnsNameError> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?,
        };
        Ok(Handshake {
            config: self.config.clone(),
            name,
        })
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Secured;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Secured>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = TlsConnector::from(self.config).connect(self.name, socket).await?;
            Ok(Secured(Box::new(stream)))
        })
    }
}

impl TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
