"""Commands for people who watch over a site: metrics, and pictures of the balancer's rounds."""
