package lab

import (
	"context"
	"path"
	"strings"
	"time"

	"authgate/e2e/bench/load"
	"authgate/e2e/bench/process"
	"authgate/e2e/bench/role"
)

// Server is a server that is measured.
type Server struct {
	Process  *process.Process
	counts   []*process.Process // others whose time and memory count too
	needs    []*process.Process // others that do not count
	Address  string             // of its listener
	plain    bool               // the listener has no TLS
	path     string             // the only path that it is asked for; empty: a resource in the folder
	names    string             // the header of its answers that names the user
	upstream string             // the address of the upstream for this server
	folder   string             // before the resource in paths; empty: any will do
	header   string             // its credential, in one line or several; empty: it needs none
	check    func(context.Context) error

	// Of authgate alone:
	Admin, Config string        // the address of its administration, the file
	Started       time.Duration // how long it took until it was ready
}

// Starter starts a server in front of the nth address of the upstream.
type Starter func(ctx context.Context, n int) (*Server, error)

// Check checks that the server works as the row needs.
func (s *Server) Check(ctx context.Context) error { return s.check(ctx) }

// Stop ends the server and its helpers.
func (s *Server) Stop() {
	s.Process.Stop()
	for _, p := range append(s.counts, s.needs...) {
		p.Stop()
	}
}

// cookie is the credential for servers that need none, so that their requests are as
// long as those with a session.
const cookie = "Cookie: session_id=0000000000000000000000000000000000000000000"

// Imitate makes a server that needs no credential get the same requests as another.
func (s *Server) Imitate(other *Server) {
	if other.header == "" {
		other.header, other.folder = cookie, "session"
	}
	if s.header == "" {
		s.header, s.folder = other.header, other.folder
	}
}

// headers returns the header lines of its credential.
func (s *Server) headers() []string { return strings.Split(s.header, "\n") }

// Base returns the URL of the server without a path.
func (s *Server) Base() string {
	if s.plain {
		return "http://" + s.Address
	}
	return "https://" + s.Address
}

// Target returns the request of a load to the server: a resource, with more header lines
// than the credential.
func (s *Server) Target(resource string, headers []string) load.Target {
	at := s.path
	if at == "" {
		at = strings.TrimSuffix("/"+s.folder+"/"+resource, "/")
	}
	return load.Target{URL: s.Base() + at, Headers: append(s.headers(), headers...)}
}

// guard makes the check of a server that its folder is for a user alone.
func (l *Lab) guard(s *Server, user string) {
	url := s.Base() + path.Join("/", s.folder, role.WhoamiSuffix)
	s.check = func(ctx context.Context) error { return l.Client.guarded(ctx, url, user, s.header) }
}

// Bare starts a bare proxy, the floor.
func (l *Lab) Bare(ctx context.Context, n int) (*Server, error) { return l.bare(ctx, n, "http://") }

// BareHTTP2 starts a bare proxy for an upstream that speaks HTTP/2 without TLS.
func (l *Lab) BareHTTP2(ctx context.Context, n int) (*Server, error) {
	return l.bare(ctx, n, "h2c://")
}

func (l *Lab) bare(ctx context.Context, n int, scheme string) (*Server, error) {
	p, addresses, err := process.StartRole(ctx, l.serverCore, "bare",
		"-upstream", scheme+l.upstreams[n], "-certificate", l.Certificate, "-key", l.key)
	if err != nil {
		return nil, err
	}
	return l.proxy(&Server{Process: p, Address: addresses[0], upstream: l.upstreams[n]}), nil
}

// proxy makes the check of a server that it forwards as a plain proxy.
func (l *Lab) proxy(s *Server) *Server {
	s.check = func(ctx context.Context) error { return l.Client.forwards(ctx, s.Base()) }
	return s
}
