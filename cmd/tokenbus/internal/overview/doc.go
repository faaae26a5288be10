// Package overview is what an operator sees of a deployment: who is on the bus, what
// each agent does and how old that knowledge is, and what is wrong, with its fix. The
// commands, the operator side over HTTP and tests share it.
package overview
