# An image of the skopos command. Not built by the project's own checks.
#
#   docker build -t registry.example.com/skopos:0.1.0 .
#
# The second stage has no shell and no package manager; it runs as a user that owns nothing.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package skopos-cli --bin skopos

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/skopos /usr/local/bin/skopos
USER 65532:65532
WORKDIR /var/lib/skopos
ENTRYPOINT ["/usr/local/bin/skopos"]
CMD ["run", "--no-install", "--data-dir=/var/lib/skopos", "--endpoint=0.0.0.0:8080", "--log-format=json"]
