# One static binary and nothing else.
#
#   docker build -t tokenbus .
#   docker run --rm --network host tokenbus up --demo
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /tokenbus ./cmd/tokenbus
RUN mkdir -m 0700 /data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /tokenbus /tokenbus
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV XDG_DATA_HOME=/data
VOLUME /data
ENTRYPOINT ["/tokenbus"]
CMD ["--help"]
