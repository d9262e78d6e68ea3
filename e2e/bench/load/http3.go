package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"

	"github.com/quic-go/quic-go/http3"
)

// Streams is the usual number of requests in progress on each connection over HTTP/2 and HTTP/3.
const Streams = 4

func getHTTP3(ctx context.Context, j *journey) error { return j.overHTTP3(ctx, http.MethodGet, nil) }

func postHTTP3(ctx context.Context, j *journey) error {
	return j.overHTTP3(ctx, http.MethodPost, bytes.Repeat([]byte("x"), PostedBytes))
}

// overHTTP3 sends requests on one connection, several at a time.
func (j *journey) overHTTP3(ctx context.Context, method string, body []byte) error {
	roots, err := readRoots(j.options.roots)
	if err != nil {
		return err
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	transport := &http3.Transport{TLSClientConfig: config, DisableCompression: true}
	defer transport.Close()
	sum, err := j.divide(Streams, func(part *journey) error {
		return part.exchanges(func() error {
			response, err := part.send(ctx, transport, method, j.options.url, bytes.NewReader(body), int64(len(body)))
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, response.Body)
			part.bytes += n
			return errors.Join(err, response.Body.Close())
		})
	})
	*j = *sum
	return err
}
