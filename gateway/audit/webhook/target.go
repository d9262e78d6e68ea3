package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswer = 4 << 10 // bytes of a body that are read
	maxHeader = 16 << 10
)

// Receiver is where events are sent.
type Receiver struct {
	Name    string
	URL     *url.URL
	Keys    [][]byte       // each of them signs
	Events  []string       // nil: all
	Timeout time.Duration  // of each try
	Roots   *x509.CertPool // nil: those of the system
}

// message is an event as all its receivers get it.
type message struct {
	id   string
	body []byte
}

func newMessage(name string, event slog.Record) *message {
	var data bytes.Buffer
	handler := slog.NewJSONHandler(&data, &slog.HandlerOptions{ReplaceAttr: withoutHead})
	_ = handler.Handle(context.Background(), event) // a buffer takes everything
	return &message{"msg_" + rand.Text(), fmt.Appendf(nil, `{"type":"audit.%s","timestamp":%q,"data":%s}`,
		name, event.Time.UTC().Format(time.RFC3339Nano), bytes.TrimSpace(data.Bytes()))}
}

// withoutHead leaves out the fields of a line of the log that come before those of the event.
func withoutHead(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// sign returns the signatures of a message at a time, as the header has them.
func sign(keys [][]byte, m *message, at string) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		sum := hmac.New(sha256.New, key)
		fmt.Fprintf(sum, "%s.%s.%s", m.id, at, m.body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// target is a receiver with its connections.
type target struct {
	Receiver
	transport *http.Transport
}

func newTarget(r Receiver) *target {
	return &target{r, &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig:     &tls.Config{RootCAs: r.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: r.Timeout, // a dial goes on after its request has ended
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
	}}
}

// same reports whether r is the same receiver.
func (t *target) same(r Receiver) bool {
	a, b := t.Receiver, r
	a.Roots, b.Roots = nil, nil
	return reflect.DeepEqual(a, b) && t.Roots.Equal(r.Roots)
}

// statusError is an answer that is no success.
type statusError int

func (e statusError) Error() string {
	text := "the answer has the status " + strconv.Itoa(int(e))
	if e >= 300 && e < 400 {
		text += "; redirects are not followed"
	}
	return text
}

// send sends a message once. After an error it returns how long the receiver wants to have no other try.
// The error does not tell the URL. It is a statusError if there was an answer.
func (t *target) send(ctx context.Context, m *message) (later time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	now := time.Now()
	at := strconv.FormatInt(now.Unix(), 10)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(m.body))
	if err != nil {
		return 0, err
	}
	request.URL, request.Host = t.URL, t.URL.Host
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"authgate"},
		"Webhook-Id": {m.id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {sign(t.Keys, m, at)},
	}
	// A client would follow redirects, and its errors tell the URL.
	response, err := t.transport.RoundTrip(request)
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, fmt.Errorf("no answer within %v", t.Timeout)
	} else if err != nil {
		return 0, withoutAnswer(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // so that the connection serves again; the status decides
	if status := response.StatusCode; status < 200 || status > 299 {
		return retryAfter(response.Header.Get("Retry-After"), now), statusError(status)
	}
	return 0, nil
}

// withoutAnswer returns an error of a request in words of the gateway or of the network. Others quote the
// bytes of the receiver, which may repeat the URL.
func withoutAnswer(err error) error {
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		return operation
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return certificate
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return errors.New("the answer is not HTTP, or the connection broke")
}

// retryAfter returns how long a field Retry-After asks to wait, and 0 if it is none.
func retryAfter(field string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(field, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(field); err == nil {
		return at.Sub(now)
	}
	return 0
}
