# One static binary and nothing else: no distribution, no shell, no root.
#
#   docker build -t tokenbus .
#   docker run --rm --network host tokenbus up --demo
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
ARG COMMIT=
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w \
      -X github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli.version=$VERSION \
      -X github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli.commit=$COMMIT" -o /tokenbus ./cmd/tokenbus
RUN mkdir -m 0700 /data

FROM scratch
LABEL org.opencontainers.image.title="tokenbus" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /tokenbus /tokenbus
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV XDG_DATA_HOME=/data
VOLUME /data
# The first signal drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/tokenbus"]
CMD ["--help"]
