// Package deploy tests the examples in docs/deploy as far as that is possible without
// Docker, a cluster or a booted systemd.
//
// A schema only shows that a file is well formed. So the tests also put the files that
// a gateway gets under a folder (see machine) and let the real program check its
// configuration there. They compare texts that are in two places: ports, names, times,
// paths.
package deploy
