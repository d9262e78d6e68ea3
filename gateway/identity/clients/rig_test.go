package clients

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"authgate/gateway/config"
	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
)

// site is a host with documents, over TLS on this machine.
type site struct {
	*httptest.Server
	connections atomic.Int64

	mu       sync.Mutex
	pages    map[string]http.HandlerFunc // by path; without one: 404
	requests map[string]int              // by path
}

// newSite returns a site at 127.0.0.1 with a certificate for that and for example.com.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]http.HandlerFunc{}, requests: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	page := s.pages[r.URL.Path]
	s.requests[r.URL.Path]++
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

// put sets the page at a path, and returns its URL.
func (s *site) put(path string, page http.HandlerFunc) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = page
	return s.URL + path
}

// document sets a document at a path and returns its URL. {ID} in the text becomes the URL.
func (s *site) document(path, text string) string {
	text = strings.ReplaceAll(text, "{ID}", s.URL+path)
	return s.put(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// count returns how often a path was requested.
func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[path]
}

// rig is a Set with a clock and a store.
type rig struct {
	*Set
	t     *testing.T
	clock *clocktest.Clock
	store store.Store
}

// newRig returns the clients of the section oauth in a configuration. Documents may be at all
// addresses of the hosts; without hosts, at public addresses.
func newRig(t *testing.T, section string, s *site, hosts ...string) *rig {
	t.Helper()
	cfg := must.Get(config.Parse("config.yaml", []byte(section+"\n")))(t)
	if s != nil {
		cfg.OAuth.MetadataClients.Hosts = hosts
		cfg.OAuth.MetadataClients.TrustedRootsContent = pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	t.Cleanup(func() { _ = memory.Close() })
	throttle := auth.NewThrottle(10, time.Hour, clock.Now)
	verifier := auth.NewVerifier(throttle, 100, time.Minute, clock.Now)
	set := must.Get(newSet(Options{
		Config: cfg, Store: memory, Now: clock.Now, Verifier: verifier,
		Assertions: assertions.New(assertions.Options{Config: cfg, Verifier: verifier}),
	}, localNames()))(t)
	return &rig{set, t, clock, memory}
}

// visitor is the address of a client of the gateway.
var visitor = netip.MustParseAddr("192.0.2.1")

// Find is that of Set, for the visitor.
func (r *rig) Find(ctx context.Context, id string) (*Client, error) {
	return r.Set.Find(ctx, id, visitor)
}

// authenticate authenticates a request from an address.
func (r *rig) authenticate(p Presented) (*Client, error) {
	if !p.Address.IsValid() {
		p.Address = visitor
	}
	if p.Audience == nil {
		p.Audience = []string{issuer, tokenEndpoint}
	}
	client, _, err := r.Authenticate(r.t.Context(), &p)
	return client, err
}

const issuer, tokenEndpoint = "https://localhost:8443", "https://localhost:8443/oauth/token"

// localNames resolves each name to 127.0.0.1, as the name server of an attacker does.
func localNames() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked, server := net.Pipe()
		go func() {
			defer server.Close()
			for {
				if err := answerLocal(server); err != nil {
					return
				}
			}
		}()
		return asked, nil
	}}
}

// answerLocal answers one question over a stream.
func answerLocal(conn net.Conn) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	raw := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, raw); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		return err
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	return err
}

// basic returns a request with Basic credentials, as they are written.
func basic(id, secret string) Presented {
	return Presented{Basic: true, Value: base64.StdEncoding.EncodeToString([]byte(id + ":" + secret))}
}
