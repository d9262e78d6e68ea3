package acme

import (
	"encoding/base64"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"authgate/e2e/world"
)

const (
	zoneKeyName  = "gateway."
	zoneQuestion = "_acme-challenge.apps." + gateName + "." // where the wildcard's record is
)

// zone is a DNS server with the zone gateName. It takes updates that its key signs.
type zone struct {
	address string
	key     string

	mu     sync.Mutex
	texts  map[string][]string // TXT records by name
	hidden bool                // no question gets them
}

func startZone(t testing.TB) *zone {
	t.Helper()
	listener, conn := listenTwice(t)
	z := &zone{
		address: listener.Addr().String(),
		key:     base64.StdEncoding.EncodeToString([]byte("the key of the zone " + t.Name())),
		texts:   map[string][]string{},
	}
	for _, server := range []*dns.Server{{PacketConn: conn}, {Listener: listener}} {
		server.Handler, server.TsigSecret = z, map[string]string{zoneKeyName: z.key}
		server.MsgAcceptFunc = func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }
		go server.ActivateAndServe()
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return z
}

// listenTwice listens at a port over TCP and UDP. Another program may have one of the two.
func listenTwice(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for {
		listener := world.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		if conn, err := net.ListenPacket("udp", listener.Addr().String()); err == nil {
			return listener, conn
		}
		listener.Close()
	}
}

// ServeDNS implements dns.Handler.
func (z *zone) ServeDNS(w dns.ResponseWriter, m *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answer := new(dns.Msg).SetReply(m)
	question := m.Question[0]
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET}
	switch {
	case m.Opcode == dns.OpcodeUpdate && (m.IsTsig() == nil || w.TsigStatus() != nil):
		answer.Rcode = dns.RcodeNotAuth
	case m.Opcode == dns.OpcodeUpdate:
		z.update(m.Ns)
		answer.SetTsig(zoneKeyName, dns.HmacSHA256, 300, int64(m.IsTsig().TimeSigned))
	case question.Qtype == dns.TypeSOA && question.Name == gateName+".":
		answer.Answer = append(answer.Answer, &dns.SOA{Hdr: header, Ns: "ns." + gateName + ".",
			Mbox: "root." + gateName + "."})
	case question.Qtype == dns.TypeTXT && !z.hidden:
		for _, text := range z.texts[question.Name] {
			answer.Answer = append(answer.Answer, &dns.TXT{Hdr: header, Txt: []string{text}})
		}
	}
	_ = w.WriteMsg(answer)
}

// update adds and removes records (RFC 2136, section 2.5).
func (z *zone) update(records []dns.RR) {
	for _, record := range records {
		text := record.(*dns.TXT)
		name, value := text.Hdr.Name, text.Txt[0]
		z.texts[name] = slices.DeleteFunc(z.texts[name], func(one string) bool { return one == value })
		if text.Hdr.Class == dns.ClassINET {
			z.texts[name] = append(z.texts[name], value)
		}
	}
}

// at returns the TXT records of a name.
func (z *zone) at(name string) []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Clone(z.texts[name])
}

// hide makes questions get no TXT records, or all.
func (z *zone) hide(hidden bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.hidden = hidden
}

// section returns tls.dns for this server.
func (z *zone) section(key string) string {
	return `, dns: {provider: rfc2136, server: "` + z.address + `", key_name: gateway, key: "` + key +
		`", resolvers: ["` + z.address + `"]}`
}

// asks makes pebble look into this zone.
func (p *pebble) asks(z *zone) {
	p.t.Helper()
	world.Stop(p.cmd, p.ended)
	args := slices.Clone(p.cmd.Args[1:])
	args[len(args)-1] = z.address
	p.cmd = p.spawn("pebble", args...)
	world.Until(p.t, "pebble with another DNS", func() bool {
		_, err := p.root()
		return err == nil
	})
}
