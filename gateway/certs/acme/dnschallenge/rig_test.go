package dnschallenge

import (
	"encoding/base64"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mholt/acmez/v3/acme"
	"github.com/miekg/dns"

	"authgate/internal/test/must"
)

const (
	zone    = "example.org."
	keyName = "gateway."
)

var (
	rightKey = base64.StdEncoding.EncodeToString([]byte("the key that the server knows"))
	wrongKey = base64.StdEncoding.EncodeToString([]byte("a key that it does not know"))
)

// server is a DNS server with one zone. It takes updates that rightKey signs, over UDP.
type server struct {
	address string

	mu      sync.Mutex
	texts   map[string][]string // TXT records by name
	aliases map[string]string   // CNAME records
	updates int
	fails   func(what string) (rcode int, silent bool) // what it does with a question or update
}

func startServer(t testing.TB) *server {
	t.Helper()
	s := &server{texts: map[string][]string{}, aliases: map[string]string{}}
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	s.address = conn.LocalAddr().String()
	serving := &dns.Server{
		PacketConn: conn, Handler: s, TsigSecret: map[string]string{keyName: rightKey},
		MsgAcceptFunc: func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept },
	}
	go serving.ActivateAndServe()
	t.Cleanup(func() { _ = serving.Shutdown() })
	return s
}

// ServeDNS implements dns.Handler.
func (s *server) ServeDNS(w dns.ResponseWriter, m *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := new(dns.Msg).SetReply(m)
	if m.Opcode == dns.OpcodeUpdate {
		s.updates++
		if signed := m.IsTsig(); signed == nil || w.TsigStatus() != nil {
			answer.Rcode = dns.RcodeNotAuth
			if signed != nil {
				refused := *signed
				refused.Error, refused.MAC, refused.MACSize = dns.RcodeBadSig, "", 0
				answer.Extra = append(answer.Extra, &refused)
			}
			_ = w.WriteMsg(answer)
			return
		}
		s.update(w, m, answer)
		return
	}
	rcode, silent := s.failure("question")
	if silent {
		return
	}
	if answer.Rcode = rcode; rcode == dns.RcodeSuccess {
		s.answer(m.Question[0], answer)
	}
	_ = w.WriteMsg(answer)
}

func (s *server) failure(what string) (int, bool) {
	if s.fails == nil {
		return dns.RcodeSuccess, false
	}
	return s.fails(what)
}

func (s *server) update(w dns.ResponseWriter, m, answer *dns.Msg) {
	what := "add"
	for _, record := range m.Ns {
		if record.Header().Class == dns.ClassNONE {
			what = "remove"
		}
	}
	rcode, silent := s.failure(what)
	if rcode == dns.RcodeSuccess {
		for _, record := range m.Ns {
			text := record.(*dns.TXT)
			name, value := text.Hdr.Name, text.Txt[0]
			s.texts[name] = slices.DeleteFunc(s.texts[name], func(one string) bool { return one == value })
			if what == "add" {
				s.texts[name] = append(s.texts[name], value)
			}
		}
	}
	if silent {
		return
	}
	answer.Rcode = rcode
	answer.SetTsig(keyName, dns.HmacSHA256, 300, int64(m.IsTsig().TimeSigned))
	_ = w.WriteMsg(answer)
}

func (s *server) answer(question dns.Question, answer *dns.Msg) {
	header := func(kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: question.Name, Rrtype: kind, Class: dns.ClassINET, Ttl: 1}
	}
	if target, ok := s.aliases[question.Name]; ok {
		answer.Answer = append(answer.Answer, &dns.CNAME{Hdr: header(dns.TypeCNAME), Target: target})
		return
	}
	switch {
	case question.Qtype == dns.TypeSOA && question.Name == zone:
		answer.Answer = append(answer.Answer, &dns.SOA{Hdr: header(dns.TypeSOA), Ns: "ns." + zone,
			Mbox: "root." + zone})
	case question.Qtype == dns.TypeTXT:
		for _, text := range s.texts[question.Name] {
			answer.Answer = append(answer.Answer, &dns.TXT{Hdr: header(dns.TypeTXT), Txt: []string{text}})
		}
	}
}

// at returns the TXT records of a name.
func (s *server) at(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.texts[name])
}

// put sets the TXT records of a name.
func (s *server) put(name string, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[name] = texts
}

// alias sets the CNAME record of a name; an empty target is none.
func (s *server) alias(name, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aliases[name] = target; target == "" {
		delete(s.aliases, name)
	}
}

// updated returns how many updates there were.
func (s *server) updated() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updates
}

// fail sets what the server does.
func (s *server) fail(f func(what string) (rcode int, silent bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = f
}

// provider is the one for this server.
func (s *server) provider(key string) RFC2136 {
	return RFC2136{s.address, keyName, key, "hmac-sha256", NewResolvers([]string{s.address})}
}

// challengeOf returns a challenge for a name, and the value of its record.
func challengeOf(name, token string) (acme.Challenge, string) {
	c := acme.Challenge{
		Type: acme.ChallengeTypeDNS01, Token: token, KeyAuthorization: token + ".thumbprint",
		Identifier: acme.Identifier{Type: "dns", Value: name},
	}
	return c, c.DNS01KeyAuthorization()
}

// wantTexts fails the test unless a name has these TXT records.
func (s *server) wantTexts(t testing.TB, when, name string, want ...string) {
	t.Helper()
	if got := s.at(name); !slices.Equal(got, want) {
		t.Errorf("%s: %s has %q, want %q", when, name, got, want)
	}
}

// wantError fails the test unless err has all parts, and shows no key.
func wantError(t testing.TB, when string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", when)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", when, err, part)
		}
	}
	for _, secret := range []string{rightKey, wrongKey} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows a key", when)
		}
	}
}
