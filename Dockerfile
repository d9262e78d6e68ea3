# Without access to a registry, use another image with Go: --build-arg GO_IMAGE=...
ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm

# It compiles on the machine's own platform for that of the image, so an image for
# another platform needs no emulation: docker buildx build --platform linux/amd64,linux/arm64
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
  go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/authgate ./cmd/authgate
RUN mkdir -p /out/etc/ssl/certs /out/data \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && echo "authgate:x:65532:65532:authgate:/data:/sbin/nologin" > /out/etc/passwd \
 && echo "authgate:x:65532:" > /out/etc/group

FROM scratch
COPY --from=build /out/etc/ /etc/
COPY --from=build --chown=65532:65532 /out/data/ /data/
COPY --from=build /out/authgate /authgate
USER 65532:65532
WORKDIR /data
# The configuration is mounted at /etc/authgate and sets data_dir: /data.
VOLUME /data
# Not the admin port, which is private.
EXPOSE 8443 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
  CMD ["/authgate", "healthcheck", "--config", "/etc/authgate/config.yaml"]
ENTRYPOINT ["/authgate"]
CMD ["serve", "--config", "/etc/authgate/config.yaml"]
