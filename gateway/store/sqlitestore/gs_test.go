package sqlitestore
import ("testing";"fmt";"sync";"time")
func TestGroup(t *testing.T) {
	for _, n := range []int{2,3,8,64} {
	s := openTest(t, Options{})
	commits := map[*batch]bool{}
	ops := 0
	for r := range 60 { var wg sync.WaitGroup
	 for i := range n { wg.Go(func(){ s.write(t.Context(),"x",func(b *batch)([]byte,error){ commits[b]=true; ops++; return nil, b.set(fmt.Sprint(r,"-",i), newEntry([]byte("v"), time.Time{})) }) }) }
	 wg.Wait() }
	t.Log(n, ops, len(commits))
	}
}
