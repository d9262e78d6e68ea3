package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// MasterName is the name of the master at its Sentinels.
const MasterName = "gate"

// Watched is a master with a replica and three Sentinels, with a quorum of two.
type Watched struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartWatched starts them at free addresses. All servers require the password
// and all Sentinels require sentinelPassword; empty means none.
func StartWatched(t testing.TB, free func() string, password, sentinelPassword string) *Watched {
	t.Helper()
	var protected []string
	if password != "" {
		protected = []string{"--requirepass", password, "--masterauth", password}
	}
	w := &Watched{Master: Start(t, free(), protected...)}
	host, port := split(t, w.Master.Address)
	w.Replica = Start(t, free(), append(protected, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")...)
	for range 3 {
		w.Sentinels = append(w.Sentinels, startSentinel(t, free(), w.Master, sentinelPassword))
	}
	last := w.Sentinels[2]
	Eventually(t, Patience, "the Sentinels know each other and the replica", func() error {
		_, err := last.Try("SENTINEL", "CKQUORUM", MasterName)
		return errors.Join(err, last.says("slaves=1,sentinels=3", "INFO", "sentinel"))
	})
	return w
}

func startSentinel(t testing.TB, address string, master *Server, password string) *Server {
	t.Helper()
	_, port := split(t, address)
	host, masterPort := split(t, master.Address)
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	lines := fmt.Sprintf(`port %s
bind 127.0.0.1
dir %s
logfile sentinel.log
sentinel monitor %s %s %s 2
sentinel down-after-milliseconds %[3]s 5000
sentinel failover-timeout %[3]s 5000
`, port, dir, MasterName, host, masterPort)
	if master.password != "" {
		lines += fmt.Sprintf("sentinel auth-pass %s %q\n", MasterName, master.password)
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{file, "--sentinel"}
	if password != "" {
		args = append(args, "--requirepass", password)
	}
	return start(t, address, args)
}

// Addresses returns the addresses of the Sentinels.
func (w *Watched) Addresses() []string {
	var all []string
	for _, s := range w.Sentinels {
		all = append(all, s.Address)
	}
	return all
}

// Cluster is three masters, which divide the slots among them in order, and a
// replica of the first.
type Cluster struct {
	Masters []*Server
	Replica *Server
}

// slots returns the first and the last slot of each master.
func slots() [3][2]int { return [3][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}} }

// Owner returns the master of a key, as long as none has failed over.
func (c *Cluster) Owner(t testing.TB, key string) *Server {
	t.Helper()
	var slot int
	if _, err := fmt.Sscanf(c.Masters[2].Do(t, "CLUSTER", "KEYSLOT", key), ":%d", &slot); err != nil {
		t.Fatal(err)
	}
	for i, its := range slots() {
		if slot <= its[1] {
			return c.Masters[i]
		}
	}
	t.Fatalf("slot %d has no owner", slot)
	return nil
}

// Shift begins to move the slot of a key, and the key if there is one, to
// another master; finish makes that one the owner.
func (c *Cluster) Shift(t testing.TB, key string) (finish func()) {
	t.Helper()
	from := c.Owner(t, key)
	to := c.Masters[(slices.Index(c.Masters, from)+1)%len(c.Masters)]
	slot := strings.TrimPrefix(from.Do(t, "CLUSTER", "KEYSLOT", key), ":")
	fromID, toID := from.Do(t, "CLUSTER", "MYID"), to.Do(t, "CLUSTER", "MYID")
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port := split(t, to.Address)
	from.Do(t, "MIGRATE", host, port, key, "0", "1000")
	return func() {
		t.Helper()
		for _, server := range []*Server{to, from} {
			server.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
		}
	}
}

// StartCluster starts a Cluster at free addresses, with more arguments for each
// node.
func StartCluster(t testing.TB, free func() string, args ...string) *Cluster {
	t.Helper()
	var nodes []*Server
	var buses []string
	for range 4 {
		_, bus := split(t, free())
		nodes = append(nodes, Start(t, free(), append([]string{"--cluster-enabled", "yes", "--cluster-port", bus,
			"--cluster-node-timeout", "5000", "--repl-diskless-sync-delay", "0"}, args...)...))
		buses = append(buses, bus)
	}
	for i, its := range slots() {
		nodes[i].Do(t, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(its[0]), fmt.Sprint(its[1]))
		nodes[i].Do(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for i, node := range nodes[1:] {
		host, port := split(t, node.Address)
		nodes[0].Do(t, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	c := &Cluster{Masters: nodes[:3], Replica: nodes[3]}
	c.assemble(t, nodes)
	return c
}

// assemble makes the last node a replica of the first, and waits until all nodes
// agree.
func (c *Cluster) assemble(t testing.TB, nodes []*Server) {
	t.Helper()
	id := c.Masters[0].Do(t, "CLUSTER", "MYID")
	Eventually(t, Patience, "the replica knows its master", func() error {
		_, err := c.Replica.Try("CLUSTER", "REPLICATE", id)
		return err
	})
	for _, node := range nodes {
		Eventually(t, Patience, "the cluster is complete", func() error {
			return errors.Join(
				node.says("cluster_state:ok", "CLUSTER", "INFO"),
				node.says("cluster_known_nodes:4", "CLUSTER", "INFO"),
				node.says("*1", "CLUSTER", "REPLICAS", id))
		})
	}
	c.Replica.Follows(t)
}

// Agrees waits until every master answers and reports all nodes as alive.
func (c *Cluster) Agrees(t testing.TB) {
	t.Helper()
	for _, node := range c.Masters {
		Eventually(t, Patience, "all nodes are alive", func() error {
			nodes, err := node.Try("CLUSTER", "NODES")
			if err == nil && strings.Contains(nodes, "fail") {
				err = fmt.Errorf("redis at %s: %s", node.Address, nodes)
			}
			return errors.Join(err, node.says("cluster_state:ok", "CLUSTER", "INFO"))
		})
	}
}

// Follows waits until a replica is connected to its master.
func (s *Server) Follows(t testing.TB) {
	t.Helper()
	Eventually(t, Patience, "the replica follows", func() error {
		return s.says("master_link_status:up", "INFO", "replication")
	})
}

// Leads waits until a server is a master.
func (s *Server) Leads(t testing.TB) {
	t.Helper()
	Eventually(t, Patience, "the replica becomes the master", func() error {
		return s.says("role:master", "INFO", "replication")
	})
}

// says returns an error unless the answer to a command holds want.
func (s *Server) says(want string, words ...string) error {
	answer, err := s.Try(words...)
	if err == nil && !strings.Contains(answer, want) {
		err = fmt.Errorf("redis at %s: %q: no %q in %q", s.Address, words, want, answer)
	}
	return err
}
