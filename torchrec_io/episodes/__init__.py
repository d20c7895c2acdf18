"""Steps of episodes as samples."""
