package acme

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// connection is one to an address of the gateway.
type connection struct {
	net.Conn
	local net.Addr
}

func (c connection) LocalAddr() net.Addr  { return c.local }
func (c connection) RemoteAddr() net.Addr { return c.local }

// wantAt compares the certificate for a client that has connected to an address and names
// a server, or none.
func (r *rig) wantAt(t *testing.T, want pair, local net.Addr, name string) {
	t.Helper()
	hello := &tls.ClientHelloInfo{ServerName: name, Conn: connection{local: local}, CipherSuites: []uint16{
		tls.TLS_AES_128_GCM_SHA256,
	}, SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
	if got, err := r.GetCertificate(hello); err != nil || !got.Leaf.Equal(want.leaf) {
		t.Errorf("at %v with the name %q: %v", local, name, err)
	}
}

// A client without a server name gets the certificate of the address to which it has
// connected, behind address translation that of the first address of the same family, else
// of any. One that names a host gets the host's.
func TestAddresses(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const first, second, six, lacking = "192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.3"
		r.names = append(r.names, lacking, six, first, second)
		named := r.keep(t, 0, 90*day)
		of := map[string]pair{}
		for _, address := range []string{first, second, six} {
			of[address] = issue(address, 0, 6*day)
			keep(t, r.storage, address, of[address])
		}
		r.open(t)
		at := func(address string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(address), Port: 443} }
		r.wantAt(t, of[first], at(first), "")
		r.wantAt(t, of[second], at(second), "")
		r.wantAt(t, of[second], at("::ffff:192.0.2.2"), "")
		r.wantAt(t, of[six], at(six), "")
		r.wantAt(t, of[six], &net.UDPAddr{IP: net.ParseIP(six), Port: 443}, "")
		r.wantAt(t, of[first], at("10.0.0.7"), "")
		r.wantAt(t, of[first], at(lacking), "")
		r.wantAt(t, of[six], &net.TCPAddr{IP: net.ParseIP("fe80::7"), Zone: "eth0"}, "")
		r.wantAt(t, of[six], &net.UnixAddr{Name: "socket"}, "")
		r.wantAt(t, of[second], at(first), second)
		r.wantAt(t, of[six], at(first), six)
		r.wantAt(t, named, at(first), r.name)
		r.wantAt(t, named, at(first), "another.example")

		r.Manage([]string{r.name, lacking, second})
		r.wantAt(t, of[second], at(six), "")
		r.Manage([]string{r.name, lacking})
		r.wantAt(t, named, at(second), "")
		synctest.Wait()
	})
}

// The authority names an address as the DNS does in reverse. Challenges for other addresses
// are refused without a look at the storage, and so are those that the authority would send
// as files.
func TestAddressChallenges(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.names = append(r.names, "192.0.2.1", "2001:db8::1")
		r.keep(t, 0, 90*day)
		r.open(t)
		const reverse = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
		for name, managed := range map[string]bool{
			"1.2.0.192.in-addr.arpa": true, reverse: true, "2.2.0.192.in-addr.arpa": false, "192.0.2.1.in-addr.arpa": false,
		} {
			before := r.spy.count()
			if _, err := r.handshake(name, Protocol); err == nil {
				t.Errorf("a challenge for %s that no order has is answered", name)
			}
			if asked := r.spy.count() != before; asked != managed {
				t.Errorf("a challenge for %s asks the storage: %t", name, asked)
			}
			if _, err := r.handshake(name, "h2"); err != nil {
				t.Errorf("a client that asks for %s: %v", name, err)
			}
		}
		for host, managed := range map[string]bool{
			"192.0.2.1": true, "[2001:db8::1]": true, "[2001:db8::1]:80": true, "192.0.2.2": false, "[2001:db8::2]": false,
		} {
			before := r.spy.count()
			r.AnswerChallenge(httptest.NewRecorder(), httptest.NewRequest("GET",
				"http://"+host+"/.well-known/acme-challenge/token", nil))
			if asked := r.spy.count() != before; asked != managed {
				t.Errorf("a challenge for %s asks the storage: %t", host, asked)
			}
		}
	})
}
