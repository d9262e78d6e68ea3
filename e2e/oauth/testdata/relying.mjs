// What the programs of these tests share: a client on the user's machine, to which the
// browser of the user comes back.
import http from 'node:http';

// story is which part of a program to run, base the address of the gateway, port where the
// client listens.
export const [story, base, port, ...more] = process.argv.slice(2);

// redirectURI is where the browser comes back to.
export const redirectURI = `http://127.0.0.1:${port}/callback`;

let arrived;

http.createServer((request, response) => {
  response.end('Back to the program.');
  arrived?.(new URL(request.url, redirectURI));
}).listen(port, '127.0.0.1');

// visit has the user open an address, and returns where the browser comes back to.
export function visit(address) {
  return new Promise((resolve) => {
    arrived = resolve;
    console.log(`open ${address}`);
  });
}

// show has the user open an address from which the browser does not come back.
export function show(address) {
  console.log(`open ${address}`);
}
