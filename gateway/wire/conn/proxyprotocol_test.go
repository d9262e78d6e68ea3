package conn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
)

// headerTime is how long a balancer has for a header in these tests.
const headerTime = 10 * time.Second

// receivedConn is a connection on which all has come that the peer sends.
type receivedConn struct {
	halfClosing
	peer    net.Addr
	in      *bytes.Reader
	written bytes.Buffer
	closed  bool
}

func received(peer string, sent []byte) *receivedConn {
	return &receivedConn{peer: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(peer)), in: bytes.NewReader(sent)}
}

func (c *receivedConn) RemoteAddr() net.Addr            { return c.peer }
func (c *receivedConn) LocalAddr() net.Addr             { return c.peer }
func (c *receivedConn) SetReadDeadline(time.Time) error { return nil }
func (c *receivedConn) Close() error                    { c.closed = true; return nil }
func (c *receivedConn) Read(b []byte) (int, error)      { return c.unlessClosed(b, c.in.Read) }
func (c *receivedConn) Write(b []byte) (int, error)     { return c.unlessClosed(b, c.written.Write) }

func (c *receivedConn) unlessClosed(b []byte, do func([]byte) (int, error)) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	return do(b)
}

// accepted returns a connection as proxyListener accepts it.
func accepted(t testing.TB, conn net.Conn, log io.Writer) net.Conn {
	t.Helper()
	balancers := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	p := &pipes{conns: make(chan net.Conn, 1)}
	p.conns <- conn
	l := NewProxyProtocol(p, balancers, headerTime, slog.New(slog.NewTextHandler(log, nil)))
	got := must.Get(l.Accept())(t)
	return got
}

// version2 returns a header of version 2 (section 2.2 of the specification).
func version2(command, family byte, block ...byte) string {
	header := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return string(append(binary.BigEndian.AppendUint16(header, uint16(len(block))), block...))
}

// block4 and block6 return the addresses of a header: source, destination, ports.
func block4(source string, more ...byte) []byte {
	b := slices.Concat(netip.MustParseAddr(source).AsSlice(), []byte{192, 0, 2, 1, 0x10, 0x01, 1, 187})
	return append(b, more...)
}

func block6(source string) []byte {
	return slices.Concat(netip.MustParseAddr(source).AsSlice(), netip.MustParseAddr("2001:db8::2").AsSlice(),
		[]byte{0x10, 0x01, 1, 187})
}

func TestBalancerHeaders(t *testing.T) {
	t.Parallel()
	const balancer, client = "10.1.2.3:4711", "203.0.113.9:4097"
	unix := make([]byte, 216)
	copy(unix, "203.0.113.9:4097")
	for _, c := range []struct {
		name, peer, header string
		want               string // empty: closed
	}{
		{"version 1", balancer, "PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n", client},
		{"version 1, IPv6", balancer, "PROXY TCP6 2001:db8:1::9 2001:db8::2 4097 443\r\n", "[2001:db8:1::9]:4097"},
		{"version 1, IPv4 in IPv6", balancer, "PROXY TCP6 ::ffff:203.0.113.9 2001:db8::2 4097 443\r\n", client},
		{"version 1, unknown", balancer, "PROXY UNKNOWN\r\n", balancer},
		{"version 2", balancer, version2(0x21, 0x11, block4("203.0.113.9")...), client},
		{"version 2, more behind the addresses", balancer,
			version2(0x21, 0x11, block4("203.0.113.9", 4, 0, 2, 'x', 'y')...), client},
		{"version 2, IPv6", balancer, version2(0x21, 0x21, block6("2001:db8:1::9")...), "[2001:db8:1::9]:4097"},
		{"version 2, local", balancer, version2(0x20, 0), balancer},
		{"IPv4 balancer in IPv6", "[::ffff:10.1.2.3]:1", "PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n", client},

		{"nothing", balancer, "", ""},
		{"no header", balancer, "", ""},
		{"half a header", balancer, "PROXY TCP4 203.0.113.9 192", ""},
		{"version 1 without CR", balancer, "PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\n", ""},
		{"version 1, too long", balancer, "PROXY UNKNOWN " + strings.Repeat("x", 100) + "\r\n", ""},
		{"version 1, a zone", balancer, "PROXY TCP6 fe80::1%eth0 2001:db8::2 4097 443\r\n", ""},
		{"version 1, another family", balancer, "PROXY TCP4 2001:db8:1::9 2001:db8::2 4097 443\r\n", ""},
		{"version 1, any address", balancer, "PROXY TCP4 0.0.0.0 192.0.2.1 4097 443\r\n", ""},
		{"version 2, multicast", balancer, version2(0x21, 0x21, block6("ff02::1")...), ""},
		{"version 2, too short", balancer, version2(0x21, 0x11, block4("203.0.113.9")[:11]...), ""},
		{"version 2, cut off", balancer, version2(0x21, 0x11, block4("203.0.113.9")...)[:20], ""},
		{"version 2, UDP", balancer, version2(0x21, 0x12, block4("203.0.113.9")...), balancer},
		{"version 2, a Unix socket with the name of an address", balancer, version2(0x21, 0x31, unix...), balancer},
		{"version 2, no address", balancer, version2(0x21, 0x00), balancer},
		{"version 2, no address, with more fields", balancer, version2(0x21, 0x00, 4, 0, 1, 'x'), balancer},
		{"version 2, another command", balancer, version2(0x22, 0x11, block4("203.0.113.9")...), ""},
		{"version 3", balancer, version2(0x31, 0x11, block4("203.0.113.9")...), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const rest = "GET / HTTP/1.1\r\n\r\n"
			sent := c.header + rest
			if c.name == "nothing" || strings.HasPrefix(c.name, "half") || strings.HasSuffix(c.name, "cut off") {
				sent = c.header
			}
			var log strings.Builder
			raw := received(c.peer, []byte(sent))
			conn := accepted(t, raw, &log)
			remote := conn.RemoteAddr().String()
			got, err := io.ReadAll(conn)
			if c.want != "" {
				if remote != c.want || string(got) != rest || err != nil || log.String() != "" {
					t.Errorf("%q from %s, %v, log %q; want %q from %s", got, remote, err, &log, rest, c.want)
				}
				return
			}
			_, failure := conn.Write([]byte("400 Bad Request"))
			if !raw.closed || len(got) > 0 || err == nil || failure == nil || raw.written.Len() > 0 {
				t.Errorf("closed: %v; %q was read (%v), %q written (%v)", raw.closed, got, err, &raw.written, failure)
			}
			if remote != net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer)).String() {
				t.Errorf("it is from %s, want the balancer", remote)
			}
			if told := strings.Contains(log.String(), "10.1.2.3"); told != (sent != "") {
				t.Errorf("the log says %q", &log)
			}
		})
	}
}

// ofBalancer is a connection from a load balancer.
type ofBalancer struct{ halfClosing }

func (*ofBalancer) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.1.2.3:1"))
}

// Accept does not wait for a header. The connection is closed if none has come
// within headerTime.
func TestBalancerSilent(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]time.Duration{
		"": headerTime, "P": headerTime, "PROXY": 0, "\r\n\r\n\x00\r\nQUIT\n!": headerTime,
		version2(0x21, 0x11, block4("203.0.113.9")...)[:27]: headerTime,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			there, here := net.Pipe()
			conn := accepted(t, &ofBalancer{halfClosing{Conn: here}}, io.Discard)
			if took := time.Since(began); took > 0 {
				t.Errorf("Accept took %v", took)
			}
			go func() {
				for i := range len(sent) {
					time.Sleep(100 * time.Millisecond)
					_, _ = there.Write([]byte(sent[i : i+1])) // fails once the connection is closed
				}
			}()
			conn.RemoteAddr()
			if took := time.Since(began); took > headerTime || took < want {
				t.Errorf("%q: given up after %v, want %v", sent, took, headerTime)
			}
			if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%q: got %v, want the connection closed", sent, err)
			}
			time.Sleep(time.Minute) // for the writes
		})
	}
}

// A header may take headerTime. After it there is no deadline, and the connection
// has what lingering needs: CloseWrite, deadlines, and the Conn below it.
func TestBalancerLingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		there, here := net.Pipe()
		below := &halfClosing{Conn: here}
		conn := newBalancedConn(below, headerTime, func(net.Addr) { t.Error("refused") })
		go func() {
			time.Sleep(headerTime - 1)
			_, _ = there.Write([]byte("PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n")) // Read tells if it fails
			time.Sleep(time.Hour)
			_, _ = there.Write([]byte("x"))
		}()
		if got := conn.RemoteAddr().String(); got != "203.0.113.9:4097" {
			t.Errorf("it is from %s", got)
		}
		if raw, ok := conn.Raw().(interface{ NetConn() net.Conn }); !ok || raw.NetConn() != below {
			t.Error("package conn does not find its connection below the header")
		}
		if err := conn.CloseWrite(); err != nil || !below.half {
			t.Errorf("CloseWrite: %v, half closed: %t", err, below.half)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Errorf("an hour after the header: %v", err)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
		if _, err := conn.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write after its deadline: %v", err)
		}
	})
}

// A peer is the client itself, whose header is data, or for a load balancer the
// client that a valid header names. The bytes after a header stay unchanged.
func FuzzBalancer(f *testing.F) {
	for _, header := range []string{
		"PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n", "PROXY TCP6 2001:db8:1::9 2001:db8::2 4097 443\r\n",
		"PROXY UNKNOWN\r\n", version2(0x21, 0x11, block4("203.0.113.9", 4, 0, 1, 'x')...),
		version2(0x21, 0x21, block6("2001:db8:1::9")...), version2(0x20, 0), "GET / HTTP/1.1\r\n\r\n", "",
	} {
		f.Add([]byte(header+"rest"), true)
		f.Add([]byte(header+"rest"), false)
	}
	f.Fuzz(func(t *testing.T, sent []byte, balancer bool) {
		peer := "203.0.113.1:1"
		if balancer {
			peer = "10.1.2.3:1"
		}
		raw := received(peer, sent)
		conn := accepted(t, raw, io.Discard)
		remote := conn.RemoteAddr().String()
		got, err := io.ReadAll(conn)
		switch {
		case !balancer:
			if remote != peer || !bytes.Equal(got, sent) || err != nil {
				t.Fatalf("%q from %s, %v", got, remote, err)
			}
		case raw.closed:
			if remote != peer || len(got) > 0 || err == nil {
				t.Fatalf("closed, and yet %q from %s, %v", got, remote, err)
			}
		default:
			if err != nil || !bytes.HasSuffix(sent, got) {
				t.Fatalf("%q, %v", got, err)
			}
			if header := sent[:len(sent)-len(got)]; remote != peer && !names(header, remote) {
				t.Fatalf("from %s by the header %q", remote, header)
			}
		}
	})
}

// names reports whether remote is the source in a header. It has a parser of its
// own.
func names(header []byte, remote string) bool {
	source, err := netip.ParseAddrPort(remote)
	if err != nil || source.Addr().IsUnspecified() || source.Addr().IsMulticast() {
		return false
	}
	if fields := strings.Fields(string(header)); len(fields) == 6 && fields[0] == "PROXY" {
		addr, err := netip.ParseAddr(fields[2])
		return err == nil && len(header) <= 107 && addr.Unmap() == source.Addr() && fields[4] == fmt.Sprint(source.Port())
	}
	if len(header) < 28 || header[12] != 0x21 {
		return false
	}
	addr, ports := header[16:20], header[24:]
	if header[13] == 0x21 && len(header) >= 52 {
		addr, ports = header[16:32], header[48:]
	}
	got, _ := netip.AddrFromSlice(addr)
	return got.Unmap() == source.Addr() && binary.BigEndian.Uint16(ports) == source.Port() &&
		len(header) == 16+int(binary.BigEndian.Uint16(header[14:]))
}
