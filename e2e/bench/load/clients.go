package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"authgate/e2e/bench/role"
)

// transport returns a client for HTTP/1.1, which trusts the roots in the options.
func (j *journey) transport() (*http.Transport, error) {
	roots, err := readRoots(j.options.roots)
	if err != nil {
		return nil, err
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true,
		WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}, nil
}

// ask sends a request over HTTP/1.1.
func (j *journey) ask(ctx context.Context, method, url string, body io.Reader, length int64) (*http.Response, error) {
	transport, err := j.transport()
	if err != nil {
		return nil, err
	}
	return j.send(ctx, transport, method, url, body, length)
}

// send sends a request, whose answer must be 200.
func (j *journey) send(
	ctx context.Context, by http.RoundTripper, method, url string, body io.Reader, length int64,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	request.ContentLength, request.Header = length, Headers(j.options.headers)
	response, err := by.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("the answer is %s, want 200", response.Status)
	}
	return response, nil
}

// download gets a body of the length in the options.
func download(ctx context.Context, j *journey) error {
	response, err := j.ask(ctx, http.MethodGet,
		fmt.Sprintf("%s/%dMiB", j.options.url, j.options.bytes>>20), http.NoBody, 0)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	j.bytes, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, response.Body, make([]byte, 256<<10))
	if err == nil && j.bytes != j.options.bytes {
		err = fmt.Errorf("the answer has %d bytes, want %d", j.bytes, j.options.bytes)
	}
	j.messages = 1
	return err
}

// upload posts a body of the length in the options. The upstream answers with the length
// that it got.
func upload(ctx context.Context, j *journey) error {
	body := io.LimitReader(Endless{}, j.options.bytes)
	response, err := j.ask(ctx, http.MethodPost, j.options.url, body, j.options.bytes)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var got int64
	if _, err := fmt.Fscan(response.Body, &got); err != nil || got != j.options.bytes {
		return fmt.Errorf("the upstream got %d bytes, want %d (%w)", got, j.options.bytes, err)
	}
	j.messages, j.bytes = 1, got
	return nil
}

// Endless reads as many bytes as one wants.
type Endless struct{}

// Read implements io.Reader.
func (Endless) Read(p []byte) (int, error) { return len(p), nil }

// echoSocket sends messages over a WebSocket, each when the one before has come back.
func echoSocket(ctx context.Context, j *journey) error {
	transport, err := j.transport()
	if err != nil {
		return err
	}
	socket, err := dialSocket(ctx, transport, Target{j.options.url, j.options.headers})
	if err != nil {
		return err
	}
	defer socket.CloseNow()
	return j.exchanges(func() error { return echo(ctx, socket) })
}

// dialSocket opens a WebSocket.
func dialSocket(ctx context.Context, by http.RoundTripper, to Target) (*websocket.Conn, error) {
	socket, _, err := websocket.Dial(ctx, to.URL, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: by}, HTTPHeader: Headers(to.Headers),
	})
	return socket, err
}

// echo sends a message over a WebSocket and waits until it comes back.
func echo(ctx context.Context, socket *websocket.Conn) error {
	if err := socket.Write(ctx, websocket.MessageText, []byte(role.Message)); err != nil {
		return err
	}
	_, got, err := socket.Read(ctx)
	if err == nil && !bytes.Equal(got, []byte(role.Message)) {
		err = errors.New("another message has come back")
	}
	return err
}

// readEvents counts server-sent events, from the first one on.
func readEvents(ctx context.Context, j *journey) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := j.ask(ctx, http.MethodGet, j.options.url, http.NoBody, 0)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	time.AfterFunc(j.options.lasting, cancel)
	events := bufio.NewScanner(response.Body)
	for events.Scan() {
		if strings.HasPrefix(events.Text(), "data: ") {
			j.messages++
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("the stream has ended: %w", events.Err())
	}
	return nil
}

// echoGRPC sends messages on a stream in both directions, each when the one before has
// come back.
func echoGRPC(ctx context.Context, j *journey) error {
	roots, err := readRoots(j.options.roots)
	if err != nil {
		return err
	}
	to, err := url.Parse(j.options.url)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(to.Host, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	if err != nil {
		return err
	}
	defer conn.Close()
	for name, values := range Headers(j.options.headers) {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), values[0])
	}
	ctx, cancel := context.WithTimeout(ctx, j.options.lasting+30*time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, to.Path)
	if err != nil {
		return err
	}
	sent := wrapperspb.String(role.Message)
	return j.exchanges(func() error {
		if err := stream.SendMsg(sent); err != nil {
			return err
		}
		var got wrapperspb.StringValue
		err := stream.RecvMsg(&got)
		if err == nil && got.Value != role.Message {
			err = errors.New("another message has come back")
		}
		return err
	})
}
